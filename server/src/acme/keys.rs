//! Certificates by which a server proves its names to an authority.

use std::time::Duration;

use boring::error::ErrorStack;
use boring::pkey::{PKeyRef, Private};
use boring::x509::{X509, X509Extension, X509NameBuilder};
use data_encoding::HEXLOWER;

use sluicegate_base::self_signed::Draft;

/// Object identifier of the extension acmeIdentifier (RFC 8737 §3).
const ACME_IDENTIFIER: &str = "1.3.6.1.5.5.7.1.31";
/// Validity of such a certificate before and after the present.
const VALID: Duration = Duration::from_secs(7 * 86_400);

/// Returns the certificate by which a server proves that it has `name` (RFC 8737 §3): it holds the digest of the challenge's key
/// authorization. `unix` is the time since 1970.
pub(super) fn proof(
    key: &PKeyRef<Private>,
    name: &str,
    digest: &[u8; 32],
    unix: Duration,
) -> Result<X509, ErrorStack> {
    // An octet string of 32 bytes.
    let value = format!("critical,DER:0420{}", HEXLOWER.encode(digest));
    let draft = Draft {
        subject: &X509NameBuilder::new()?.build(),
        names: &[name],
        serial: &[1],
        valid: unix.saturating_sub(VALID)..unix + VALID,
        extension: &X509Extension::new(None, None, ACME_IDENTIFIER, &value)?,
    };
    draft.sign(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_base::self_signed;

    #[test]
    fn proof_holds_the_digest_in_a_critical_extension() {
        let key = self_signed::key().unwrap();
        let now = Duration::from_secs(1_800_000_000);
        let made = proof(&key, "a.example", &[0xab; 32], now).unwrap();
        assert!(made.check_host("a.example").unwrap());
        assert!(made.verify(&key).unwrap());
        let der = made.to_der().unwrap();
        // OID, TRUE, and an octet string that holds one of 32 bytes.
        let mut expected =
            b"\x06\x08\x2b\x06\x01\x05\x05\x07\x01\x1f\x01\x01\xff\x04\x22\x04\x20".to_vec();
        expected.extend([0xab; 32]);
        assert!(der.windows(expected.len()).any(|part| part == expected));
    }
}
