//! Certificates by which a server proves its names to an authority.

use std::time::Duration;

use boring::asn1::{Asn1Integer, Asn1Time};
use boring::bn::BigNum;
use boring::ec::{EcGroup, EcKey};
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, PKeyRef, Private};
use boring::x509::extension::SubjectAlternativeName;
use boring::x509::{X509, X509Extension, X509NameBuilder};

/// Object identifier of the extension acmeIdentifier (RFC 8737 §3).
const ACME_IDENTIFIER: &str = "1.3.6.1.5.5.7.1.31";
/// Validity of such a certificate before and after the present.
const VALID: Duration = Duration::from_secs(7 * 86_400);

/// Returns a fresh key on the curve P-256.
pub(super) fn fresh() -> Result<PKey<Private>, ErrorStack> {
    let curve = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    PKey::from_ec_key(EcKey::generate(&curve)?)
}

/// Returns the certificate by which a server proves that it has `name` (RFC 8737 §3): it holds the digest of the challenge's key
/// authorization. `unix` is the time since 1970.
pub(super) fn proof(
    key: &PKeyRef<Private>,
    name: &str,
    digest: &[u8; 32],
    unix: Duration,
) -> Result<X509, ErrorStack> {
    let mut made = X509::builder()?;
    // Counted from 0: X.509 v3.
    made.set_version(2)?;
    let serial = BigNum::from_u32(1)?;
    made.set_serial_number(Asn1Integer::from_bn(&serial)?.as_ref())?;
    let subject = X509NameBuilder::new()?.build();
    made.set_issuer_name(&subject)?;
    made.set_subject_name(&subject)?;
    made.set_not_before(time(unix.saturating_sub(VALID))?.as_ref())?;
    made.set_not_after(time(unix + VALID)?.as_ref())?;
    made.set_pubkey(key)?;
    let mut alternatives = SubjectAlternativeName::new();
    alternatives.dns(name);
    let alternatives = alternatives.build(&made.x509v3_context(None, None))?;
    made.append_extension(&alternatives)?;
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    // An octet string of 32 bytes.
    let value = format!("critical,DER:0420{digits}");
    let identifier = X509Extension::new(None, None, ACME_IDENTIFIER, &value)?;
    made.append_extension(&identifier)?;
    made.sign(key, MessageDigest::sha256())?;
    Ok(made.build())
}

fn time(unix: Duration) -> Result<Asn1Time, ErrorStack> {
    Asn1Time::from_unix(i64::try_from(unix.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_holds_the_digest_in_a_critical_extension() {
        let key = fresh().unwrap();
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
