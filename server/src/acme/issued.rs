//! A certificate that was issued, with its key.

use std::borrow::Cow;

use boring::asn1::{Asn1Time, Asn1TimeRef};
use boring::error::ErrorStack;
use boring::pkey::PKey;
use boring::x509::{X509, X509Ref};
use instant_acme::CertificateIdentifier;

use super::schedule::Validity;

/// Facts of a certificate.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    pub(super) validity: Validity,
    /// Identifier by which the authority says when to renew it (RFC 9773 §4.1); `None` if the certificate has none.
    pub(super) identifier: Option<CertificateIdentifier<'static>>,
}

impl Issued {
    /// Reads a certificate chain with its key, PEM; `None` if they do not belong together, or are not for all names.
    pub(super) fn read(pem: &str, names: &[String]) -> Option<Issued> {
        let chain = X509::stack_from_pem(pem.as_bytes()).ok()?;
        let leaf = chain.first()?;
        let key = PKey::private_key_from_pem(pem.as_bytes()).ok()?;
        let fits = leaf.public_key().ok()?.public_eq(&key);
        let has = |name: &String| leaf.check_host(&host_of(name)).unwrap_or(false);
        if !fits || !names.iter().all(has) {
            return None;
        }
        Some(Issued { validity: validity(leaf).ok()?, identifier: identifier(leaf) })
    }
}

/// Returns a host that a certificate for `name` is good for. A wildcard itself is the name of none.
fn host_of(name: &str) -> Cow<'_, str> {
    match name.strip_prefix("*.") {
        Some(domain) => Cow::Owned(format!("any-host.{domain}")),
        None => Cow::Borrowed(name),
    }
}

fn validity(leaf: &X509Ref) -> Result<Validity, ErrorStack> {
    Ok(Validity { from: unix(leaf.not_before())?, to: unix(leaf.not_after())? })
}

fn unix(time: &Asn1TimeRef) -> Result<i64, ErrorStack> {
    let since = Asn1Time::from_unix(0)?.diff(time)?;
    Ok(i64::from(since.days) * 86_400 + i64::from(since.secs))
}

fn identifier(leaf: &X509Ref) -> Option<CertificateIdentifier<'static>> {
    let mut serial = leaf.serial_number().to_bn().ok()?.to_vec();
    // As in DER, where the first bit is the sign.
    if serial.first().is_none_or(|first| first & 0x80 != 0) {
        serial.insert(0, 0);
    }
    Some(CertificateIdentifier {
        authority_key_identifier: Cow::Owned(base64url(leaf.authority_key_id()?.as_slice())),
        serial: Cow::Owned(base64url(&serial)),
    })
}

fn base64url(bytes: &[u8]) -> String {
    let text = boring::base64::encode_block(bytes);
    let text = text.trim_end_matches('=');
    text.replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::keys;
    use super::*;
    use sluicegate_base::self_signed;

    #[test]
    fn file_counts_if_key_and_certificate_belong_together_and_all_names_are_there() {
        let [key, other] = [(); 2].map(|()| self_signed::key().unwrap());
        let now = Duration::from_secs(1_800_000_000);
        let made = keys::proof(&key, "a.example", &[1; 32], now).unwrap();
        let certificate = String::from_utf8(made.to_pem().unwrap()).unwrap();
        let pem = |key: &PKey<_>| {
            let key = String::from_utf8(key.private_key_to_pem_pkcs8().unwrap()).unwrap();
            format!("{key}{certificate}")
        };
        let names = ["a.example", "b.example"].map(str::to_owned);
        let read = Issued::read(&pem(&key), &names[..1]).unwrap();
        let week = 7 * 86_400;
        let expected = Validity { from: 1_800_000_000 - week, to: 1_800_000_000 + week };
        assert_eq!(read.validity, expected);
        assert!(Issued::read(&pem(&key), &names).is_none());
        assert!(Issued::read(&pem(&other), &names[..1]).is_none());
        assert!(Issued::read(&certificate, &names[..1]).is_none());
        assert!(Issued::read("", &names[..1]).is_none());
    }

    #[test]
    fn base64url_has_no_padding_and_is_safe_in_urls() {
        assert_eq!(base64url(&[0xfb, 0xff, 0xfe, 0xff]), "-__-_w");
    }
}
