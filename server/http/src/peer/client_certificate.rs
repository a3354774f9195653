//! Certificate by which a client has proved who it is.

use std::fmt::Write as _;

use boring::error::ErrorStack;
use boring::sha::sha256;
use boring::x509::{X509, X509NameRef, X509Ref};
use data_encoding::HEXLOWER;

/// Verified certificate of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Subject in the form of RFC 4514, as in `CN=app,O=Example`; ASCII alone.
    pub subject: Box<str>,
    /// SHA-256 of the certificate in DER, hexadecimal.
    pub fingerprint: Box<str>,
}

impl ClientCertificate {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// It is none.
    pub fn from_der(der: &[u8]) -> Result<ClientCertificate, ErrorStack> {
        let certificate = X509::from_der(der)?;
        Ok(ClientCertificate {
            subject: subject(certificate.subject_name()).into(),
            fingerprint: HEXLOWER.encode(&sha256(der)).into(),
        })
    }

    /// Reads a certificate of the TLS library.
    ///
    /// # Errors
    /// The library has no memory.
    pub fn of(certificate: &X509Ref) -> Result<ClientCertificate, ErrorStack> {
        ClientCertificate::from_der(&certificate.to_der()?)
    }
}

/// Returns a name in the form of RFC 4514: the last part first.
fn subject(name: &X509NameRef) -> String {
    let mut text = String::new();
    let parts: Vec<_> = name.entries().collect();
    for part in parts.iter().rev() {
        if !text.is_empty() {
            text.push(',');
        }
        let kind = part.object();
        match kind.nid().short_name() {
            Ok(short) => text.push_str(short),
            // An object without a name is shown by its numbers.
            Err(_) => text.push_str(&kind.to_string()),
        }
        text.push('=');
        let raw = part.data().as_slice();
        match part.data().as_utf8() {
            // The library's text would end at NUL, and look like another name.
            Ok(value) if !raw.contains(&0) => escape(&mut text, value.as_bytes()),
            _ => escape(&mut text, raw),
        }
    }
    text
}

/// Escapes a value (RFC 4514 §2.4), and every octet outside printable ASCII.
fn escape(text: &mut String, value: &[u8]) {
    let last = value.len().saturating_sub(1);
    for (at, byte) in value.iter().copied().enumerate() {
        let special = b",+\"\\<>;=".contains(&byte)
            || (byte == b'#' && at == 0)
            || (byte == b' ' && (at == 0 || at == last));
        match byte {
            b' '..=b'~' if special => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                // Writing to memory cannot fail.
                let _ = write!(text, "\\{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use boring::nid::Nid;
    use boring::x509::X509NameBuilder;

    use super::*;

    #[test]
    fn subject_begins_with_its_last_part_and_is_plain_ascii() {
        let mut name = X509NameBuilder::new().unwrap();
        for (nid, value) in [
            (Nid::COUNTRYNAME, "DE"),
            (Nid::ORGANIZATIONNAME, "M\u{fc}ller, S\u{f6}hne"),
            (Nid::COMMONNAME, " #a\r\n=\"b "),
        ] {
            name.append_entry_by_nid(nid, value).unwrap();
        }
        assert_eq!(
            subject(&name.build()),
            "CN=\\ #a\\0D\\0A\\=\\\"b\\ ,O=M\\C3\\BCller\\, S\\C3\\B6hne,C=DE"
        );
        assert_eq!(subject(&X509NameBuilder::new().unwrap().build()), "");
        let mut name = X509NameBuilder::new().unwrap();
        name.append_entry_by_nid(Nid::COMMONNAME, "admin\0.example").unwrap();
        assert_eq!(subject(&name.build()), "CN=admin\\00.example");
    }

    #[test]
    fn bytes_that_are_no_certificate_are_refused() {
        assert!(ClientCertificate::from_der(b"x").is_err());
    }
}
