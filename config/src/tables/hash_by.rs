//! Part of a request by whose hash it gets an upstream.

use std::fmt;

use crate::field::words_in_fields;
use crate::schema::{Reason, Refusal};
use crate::value::Word;
use crate::words::{canonical, token};

/// Longest name of a field or cookie, bytes.
const MAX_NAME: usize = 256;

/// Part of a request by whose hash it gets an upstream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HashBy {
    /// Address of the client, without its port.
    ClientAddress,
    /// Field of this name, in lower case.
    Field(String),
    /// Cookie of this name.
    Cookie(String),
}

impl fmt::Display for HashBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientAddress => f.write_str("client_address"),
            Self::Field(name) => write!(f, "field {name}"),
            Self::Cookie(name) => write!(f, "cookie {name}"),
        }
    }
}

impl Word for HashBy {
    fn of_canonical(word: String) -> Option<Self> {
        match word.split_once(' ') {
            Some(("field", name)) => Some(Self::Field(name.to_owned())),
            Some(("cookie", name)) => Some(Self::Cookie(name.to_owned())),
            _ => (word == "client_address").then_some(Self::ClientAddress),
        }
    }
}

words_in_fields!(HashBy);

/// Reads `client_address`, `field NAME` or `cookie NAME`. Names of fields become lower case; those of cookies are
/// case-sensitive (RFC 6265 §5.4).
pub(super) fn hash_by(word: &str) -> Result<String, Refusal> {
    let mut words = word.split_ascii_whitespace();
    canonical(match (words.next(), words.next(), words.next()) {
        (Some("client_address"), None, None) => Some("client_address".to_owned()),
        (Some("field"), Some(name), None) if name.eq_ignore_ascii_case("host") => {
            return Err(Refusal::because(Reason {
                found: "`field host` for `hash_by`".to_owned(),
                expected: "another field: clients of HTTP/3 send the host as no field".to_owned(),
                nearest: None,
            }));
        }
        (Some("field"), Some(name), None) if token(name, MAX_NAME) => {
            Some(format!("field {}", name.to_ascii_lowercase()))
        }
        (Some("cookie"), Some(name), None) if token(name, MAX_NAME) => {
            Some(format!("cookie {name}"))
        }
        _ => None,
    })
}
