//! Certificates that their own key signs: for trials, for tests, and for proofs to an authority.

use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use boring::asn1::{Asn1Integer, Asn1Time};
use boring::bn::BigNum;
use boring::ec::{EcGroup, EcKey};
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, PKeyRef, Private};
use boring::x509::extension::{ExtendedKeyUsage, SubjectAlternativeName};
use boring::x509::{X509, X509Builder, X509Extension, X509NameBuilder, X509NameRef};

/// Common name of issuer and subject.
const COMMON_NAME: &str = "sluicegate trial";
/// Validity of the certificate: longer than any trial runs.
const VALID: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Time before now at which the validity begins: clocks of clients may be behind.
const BACKDATED: Duration = Duration::from_secs(86_400);

/// Returns a fresh key on the curve P-256.
///
/// # Errors
/// The library could not make one.
pub fn key() -> Result<PKey<Private>, ErrorStack> {
    let curve = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    let pair = EcKey::generate(&curve)?;
    PKey::from_ec_key(pair)
}

/// Returns a server's certificate for `names`, host names or addresses, that `key` has signed itself.
///
/// It is valid from a day before `unix`, the time since 1970, for ten years. `serial` is a positive number, big-endian; browsers
/// refuse a second certificate with the serial number of the first.
///
/// # Errors
/// The library refused a name.
pub fn certificate(
    key: &PKeyRef<Private>,
    names: &[&str],
    serial: &[u8],
    unix: Duration,
) -> Result<X509, ErrorStack> {
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_nid(Nid::COMMONNAME, COMMON_NAME)?;
    let draft = Draft {
        subject: &name.build(),
        names,
        serial,
        valid: unix.saturating_sub(BACKDATED)..unix + VALID,
        extension: &ExtendedKeyUsage::new().server_auth().build()?,
    };
    draft.sign(key)
}

/// Contents of a certificate, but for its key.
pub struct Draft<'a> {
    /// Name of the subject, who is the issuer, too.
    pub subject: &'a X509NameRef,
    /// Host names or addresses.
    pub names: &'a [&'a str],
    /// Positive number, big-endian.
    pub serial: &'a [u8],
    /// Validity, as times since 1970.
    pub valid: Range<Duration>,
    /// Extension beside the names.
    pub extension: &'a X509Extension,
}

impl Draft<'_> {
    /// Returns the certificate of `key`, signed by it.
    pub fn sign(&self, key: &PKeyRef<Private>) -> Result<X509, ErrorStack> {
        let mut made = X509Builder::new()?;
        // Counted from 0: X.509 v3.
        made.set_version(2)?;
        let serial = BigNum::from_slice(self.serial)?;
        made.set_serial_number(Asn1Integer::from_bn(&serial)?.as_ref())?;
        made.set_issuer_name(self.subject)?;
        made.set_subject_name(self.subject)?;
        made.set_not_before(time(self.valid.start)?.as_ref())?;
        made.set_not_after(time(self.valid.end)?.as_ref())?;
        made.set_pubkey(key)?;
        let mut alternatives = SubjectAlternativeName::new();
        for name in self.names {
            match name.parse::<IpAddr>() {
                Ok(_) => alternatives.ip(name),
                Err(_) => alternatives.dns(name),
            };
        }
        let alternatives = alternatives.build(&made.x509v3_context(None, None))?;
        made.append_extension(&alternatives)?;
        made.append_extension(self.extension)?;
        made.sign(key, MessageDigest::sha256())?;
        Ok(made.build())
    }
}

fn time(unix: Duration) -> Result<Asn1Time, ErrorStack> {
    Asn1Time::from_unix(i64::try_from(unix.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    #[test]
    fn it_is_good_for_its_names_and_no_other() {
        let key = key().unwrap();
        let names = ["localhost", "127.0.0.1", "::1"];
        let made = certificate(&key, &names, &[1], NOW).unwrap();
        assert!(made.check_host("localhost").unwrap());
        assert!(made.check_ip_asc("127.0.0.1").unwrap());
        assert!(made.check_ip_asc("::1").unwrap());
        assert!(!made.check_host("example.org").unwrap());
        assert!(!made.check_ip_asc("127.0.0.2").unwrap());
    }

    #[test]
    fn it_is_signed_by_its_own_key() {
        let (own, other) = (key().unwrap(), key().unwrap());
        let made = certificate(&own, &["localhost"], &[1], NOW).unwrap();
        assert!(made.verify(&own).unwrap());
        assert!(!made.verify(&other).unwrap());
    }

    #[test]
    fn it_is_valid_around_the_time_it_was_made() {
        let key = key().unwrap();
        let made = certificate(&key, &["localhost"], &[1], NOW).unwrap();
        let day = Duration::from_secs(86_400);
        assert!(*made.not_before() < time(NOW).unwrap());
        assert!(*made.not_after() > time(NOW + day * 365).unwrap());
    }

    #[test]
    fn its_serial_number_is_the_one_given() {
        let key = key().unwrap();
        let made = certificate(&key, &["localhost"], &[0x7f, 0xff], NOW).unwrap();
        let serial = made.serial_number().to_bn().unwrap();
        assert_eq!(serial.to_vec(), [0x7f, 0xff]);
    }
}
