//! Certificates of clients, and the authorities that issue them.

use boring::asn1::{Asn1Integer, Asn1Time};
use boring::bn::BigNum;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::x509::extension::{BasicConstraints, ExtendedKeyUsage};
use boring::x509::{X509, X509Builder, X509NameBuilder};
use sluicegate_base::self_signed;

use crate::server::Folder;

/// A day, seconds.
const DAY: i64 = 86_400;

/// Returns the seconds since 1970.
pub(super) fn now() -> i64 {
    i64::try_from(sluicegate_base::clock::unix().as_secs()).unwrap()
}

/// An authority, or what it has certified.
pub(crate) struct Certified {
    pub(super) certificate: X509,
    pub(super) key: PKey<Private>,
}

impl Certified {
    /// Returns an authority that vouches for itself.
    pub(super) fn authority(name: &str) -> Certified {
        Certified::make(name, None, now() + DAY)
    }

    /// Returns what this authority certifies for a client, until so many days from now.
    pub(super) fn client(&self, name: &str, days: i64) -> Certified {
        self.client_until(name, now() + days * DAY)
    }

    /// Returns what this authority certifies for a client, until `end` in seconds since 1970.
    pub(super) fn client_until(&self, name: &str, end: i64) -> Certified {
        Certified::make(name, Some(self), end)
    }

    fn make(name: &str, issuer: Option<&Certified>, end: i64) -> Certified {
        let key = self_signed::key().unwrap();
        let at = |time: i64| Asn1Time::from_unix(time).unwrap();
        let mut subject = X509NameBuilder::new().unwrap();
        subject.append_entry_by_nid(Nid::ORGANIZATIONNAME, "Test").unwrap();
        subject.append_entry_by_nid(Nid::COMMONNAME, name).unwrap();
        let subject = subject.build();
        let mut made = X509Builder::new().unwrap();
        made.set_version(2).unwrap();
        let serial = Asn1Integer::from_bn(&BigNum::from_u32(7).unwrap()).unwrap();
        made.set_serial_number(&serial).unwrap();
        made.set_subject_name(&subject).unwrap();
        let issuer_name = issuer.map(|issuer| issuer.certificate.subject_name());
        made.set_issuer_name(issuer_name.unwrap_or(&subject)).unwrap();
        made.set_not_before(&at(now() - 10 * DAY)).unwrap();
        made.set_not_after(&at(end)).unwrap();
        made.set_pubkey(&key).unwrap();
        let extension = match issuer {
            None => BasicConstraints::new().critical().ca().build(),
            Some(_) => ExtendedKeyUsage::new().client_auth().build(),
        };
        made.append_extension(&extension.unwrap()).unwrap();
        let signer = issuer.map_or(&key, |issuer| &issuer.key);
        made.sign(signer, MessageDigest::sha256()).unwrap();
        Certified { certificate: made.build(), key }
    }

    /// Writes the certificate to a file of a folder.
    pub(super) fn write(&self, folder: &Folder, file: &str) {
        std::fs::write(folder.path(file), self.certificate.to_pem().unwrap()).unwrap();
    }
}
