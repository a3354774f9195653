//! Passwords of routes, by the Basic scheme (RFC 7617).
//!
//! The gate reads the credentials of a request and refuses one without any. The origin thread verifies them, because a
//! password's hash takes tens of milliseconds by design ([`Verifier`]).

mod checks;
mod counters;
mod credentials;
mod results;
mod turns;
mod users;
mod verifier;

use std::sync::Arc;

use http::HeaderValue;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};

pub use self::checks::PasswordChecks;
pub use self::counters::AuthCounters;
pub use self::credentials::Credentials;
pub use self::users::{Users, UsersError};
pub use self::verifier::{PasswordVerdict, Verifier};
use crate::exchange::Reply;

/// Users of a route, and what the route does with their credentials.
#[derive(Debug)]
pub struct BasicAuth {
    /// Users with the hashes of their passwords.
    pub users: Arc<Users>,
    /// Whether upstreams receive the credentials.
    pub forward: bool,
    challenge: HeaderValue,
}

impl BasicAuth {
    /// Returns the protection of a route by these users.
    ///
    /// # Errors
    /// The realm cannot stand in a field; the configuration refuses it by the same rules.
    pub fn new(users: Arc<Users>, realm: &str, forward: bool) -> Result<BasicAuth, String> {
        let quoted = realm.replace('\\', "\\\\").replace('"', "\\\"");
        let challenge = format!("Basic realm=\"{quoted}\", charset=\"UTF-8\"");
        Ok(BasicAuth {
            users,
            forward,
            challenge: HeaderValue::try_from(challenge).map_err(|_| realm.to_owned())?,
        })
    }

    /// Returns 401: the request has no valid credentials.
    pub fn unauthorized(&self) -> Reply {
        let mut reply = Reply::plain(401, "401 name and password required\n");
        let challenge = (WWW_AUTHENTICATE, self.challenge.clone());
        reply.headers.edit().push(challenge);
        reply
    }
}

/// Returns 503: too many passwords wait for a check.
pub fn busy() -> Reply {
    let mut reply = Reply::plain(503, "503 too many passwords to check\n");
    let seconds = HeaderValue::from_static("1");
    reply.headers.edit().push((RETRY_AFTER, seconds));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realm_is_quoted() {
        let users = Arc::new(
            Users::parse("a:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW").unwrap(),
        );
        let auth = BasicAuth::new(users, "a \"b\" \\c", false).unwrap();
        let reply = auth.unauthorized();
        let challenge = reply.headers.iter().find(|(name, _)| name == WWW_AUTHENTICATE);
        let expected = r#"Basic realm="a \"b\" \\c", charset="UTF-8""#;
        assert_eq!(challenge.unwrap().1, expected);
        assert_eq!(reply.status, 401);
    }
}
