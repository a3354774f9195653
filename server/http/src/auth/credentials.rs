//! Name and password of a request.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};

const BASE64: GeneralPurpose = {
    let config = GeneralPurposeConfig::new();
    GeneralPurpose::new(&STANDARD, config.with_decode_padding_mode(DecodePaddingMode::Indifferent))
};

/// Name and password that a client claims.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the user.
    pub user: Vec<u8>,
    /// Password.
    pub password: Vec<u8>,
}

impl Credentials {
    /// Reads the credentials of a request; `None` if there are none, several, or malformed ones.
    pub fn of(fields: &[(HeaderName, HeaderValue)]) -> Option<Credentials> {
        let mut lines = fields.iter().filter(|(name, _)| name == AUTHORIZATION);
        let (Some((_, line)), None) = (lines.next(), lines.next()) else {
            return None;
        };
        let (scheme, encoded) = line.to_str().ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let mut user = BASE64.decode(encoded.trim()).ok()?;
        // RFC 7617 §2: neither has control characters.
        if user.iter().any(u8::is_ascii_control) {
            return None;
        }
        let colon = user.iter().position(|byte| *byte == b':')?;
        let password = user.split_off(colon).split_off(1);
        Some(Credentials { user, password })
    }
}

/// Names the user, and no password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = String::from_utf8_lossy(&self.user);
        f.debug_struct("Credentials").field("user", &user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&'static str]) -> Option<(String, String)> {
        let line = |line: &&'static str| (AUTHORIZATION, HeaderValue::from_static(line));
        let fields: Vec<_> = lines.iter().map(line).collect();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Credentials::of(&fields).map(|read| (text(read.user), text(read.password)))
    }

    #[test]
    fn credentials_are_one_line_of_the_basic_scheme() {
        let ada = Some(("ada".to_owned(), "se:cret".to_owned()));
        for (lines, expected) in [
            (&["Basic YWRhOnNlOmNyZXQ="][..], ada.clone()),
            (&["basic YWRhOnNlOmNyZXQ"], ada.clone()),
            (&["BASIC  YWRhOnNlOmNyZXQ="], ada),
            (&["Basic Og=="], Some((String::new(), String::new()))),
            (&[], None),
            (&["Basic"], None),
            (&["Basic YWRh"], None),
            (&["Basic YWRhOnNl!"], None),
            (&["Bearer YWRhOnNlOmNyZXQ="], None),
            // ada:a\nb
            (&["Basic YWRhOmEKYg=="], None),
            (&["Basic YWRhOnNlOmNyZXQ=", "Basic YWRhOnNlOmNyZXQ="], None),
        ] {
            assert_eq!(read(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn the_password_is_not_shown() {
        let fields = [(AUTHORIZATION, HeaderValue::from_static("Basic YWRhOnNlOmNyZXQ="))];
        let shown = format!("{:?}", Credentials::of(&fields).unwrap());
        assert_eq!(shown, "Credentials { user: \"ada\", .. }");
    }
}
