//! Failures to obtain a certificate.

use std::io;
use std::path::Path;

use thiserror::Error;

use sluicegate_base::observe::acme::AcmeFailure;

/// Failure to obtain a certificate: what failed, and what the operator can do.
#[derive(Debug, Error)]
#[error("{cause}; {remedy}")]
pub(super) struct AcmeError {
    pub(super) failure: AcmeFailure,
    /// The authority no longer has the account, or has deactivated it.
    pub(super) account_is_gone: bool,
    /// The authority refused several nonces in a row, which says nothing about the order.
    pub(super) is_about_nonces: bool,
    cause: String,
    remedy: &'static str,
}

impl AcmeError {
    /// Returns a failure with the remedy that its kind has.
    pub(super) fn new(failure: AcmeFailure, cause: impl ToString) -> AcmeError {
        AcmeError {
            failure,
            account_is_gone: false,
            is_about_nonces: false,
            cause: cause.to_string(),
            remedy: remedy(failure),
        }
    }

    /// Returns the failure of a new order, which an authority refuses as unauthorized if the account is deactivated (RFC 8555 §7.3.6).
    /// Later the same problem is about names.
    pub(super) fn of_new_order(error: instant_acme::Error) -> AcmeError {
        let is_deactivated = kind_of(&error) == Some("unauthorized");
        let failure = AcmeError::from(error);
        AcmeError { account_is_gone: failure.account_is_gone || is_deactivated, ..failure }
    }

    /// Returns a failure of the state directory.
    pub(super) fn storage(path: &Path, cause: &io::Error) -> AcmeError {
        let cause = format!("{}: {cause}", path.display());
        AcmeError::new(AcmeFailure::Storage, cause)
    }
}

impl From<instant_acme::Error> for AcmeError {
    fn from(error: instant_acme::Error) -> AcmeError {
        let kind = kind_of(&error);
        let account_is_gone = kind == Some("accountDoesNotExist");
        let is_about_nonces = is_about_nonces(&error);
        let failure = kind.map_or(AcmeFailure::Directory, of_problem);
        AcmeError { account_is_gone, is_about_nonces, ..AcmeError::new(failure, error) }
    }
}

/// Returns whether the authority refused the nonces of a request and of its repetitions (RFC 8555 §6.5).
pub(super) fn is_about_nonces(error: &instant_acme::Error) -> bool {
    kind_of(error) == Some("badNonce")
}

/// Returns the last word of the type of a problem that the authority reports; `None` for another error.
fn kind_of(error: &instant_acme::Error) -> Option<&str> {
    match error {
        instant_acme::Error::Api(problem) => {
            let kind = problem.r#type.as_deref().unwrap_or_default();
            kind.rsplit(':').next()
        }
        _ => None,
    }
}

/// Returns the failure that a type of problem stands for (RFC 8555 §6.7), by its last word.
fn of_problem(kind: &str) -> AcmeFailure {
    match kind {
        "rateLimited" => AcmeFailure::RateLimit,
        "accountDoesNotExist"
        | "externalAccountRequired"
        | "userActionRequired"
        | "invalidContact"
        | "unsupportedContact"
        | "unauthorized" => AcmeFailure::Account,
        "serverInternal" | "badNonce" | "malformed" => AcmeFailure::Directory,
        "connection" | "dns" | "tls" | "incorrectResponse" | "caa" => AcmeFailure::Challenge,
        _ => AcmeFailure::Refused,
    }
}

fn remedy(failure: AcmeFailure) -> &'static str {
    match failure {
        AcmeFailure::Directory => "check acme.directory and acme.ca, and that this host reaches it",
        AcmeFailure::Account => {
            "check acme.email, acme.external_id and acme.external_key, and the authority's terms"
        }
        AcmeFailure::RateLimit => {
            "wait, use the authority's staging directory for trials, or ask for fewer certificates"
        }
        AcmeFailure::Challenge => {
            "check that the name leads to this server, at port 443 for tls-alpn-01 and at port 80 for http-01, which needs \
             `http_address` of a [[listener]] there; with dns-01, that its zone shows the record after acme.dns_delay"
        }
        AcmeFailure::Hook => {
            "run acme.dns_hook yourself, as the server's user and with these arguments and a value"
        }
        AcmeFailure::Refused => "check the names in acme of [listener.tls]",
        AcmeFailure::Storage => {
            "check the permissions of the folder acme in server.state_dir, and the space on its disk"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str) -> instant_acme::Error {
        let text = format!("{{\"type\":\"{kind}\"}}");
        instant_acme::Error::Api(serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn account_is_gone_only_if_the_authority_says_so() {
        for (kind, of_order, later) in [
            ("accountDoesNotExist", true, true),
            ("unauthorized", true, false),
            ("externalAccountRequired", false, false),
            ("userActionRequired", false, false),
            ("invalidContact", false, false),
            ("serverInternal", false, false),
        ] {
            let kind = format!("urn:ietf:params:acme:error:{kind}");
            let found = AcmeError::of_new_order(problem(&kind)).account_is_gone;
            assert_eq!(found, of_order, "{kind}");
            let found = AcmeError::from(problem(&kind)).account_is_gone;
            assert_eq!(found, later, "{kind}");
        }
    }

    #[test]
    fn refused_nonces_are_told_from_refused_orders() {
        for (kind, is) in [("badNonce", true), ("rejectedIdentifier", false)] {
            let error = problem(&format!("urn:ietf:params:acme:error:{kind}"));
            assert_eq!(AcmeError::from(error).is_about_nonces, is, "{kind}");
        }
    }

    #[test]
    fn problems_have_a_reason_and_a_remedy() {
        for (kind, failure) in [
            ("urn:ietf:params:acme:error:rateLimited", AcmeFailure::RateLimit),
            ("urn:ietf:params:acme:error:dns", AcmeFailure::Challenge),
            ("urn:ietf:params:acme:error:externalAccountRequired", AcmeFailure::Account),
            ("urn:ietf:params:acme:error:rejectedIdentifier", AcmeFailure::Refused),
            ("", AcmeFailure::Refused),
        ] {
            let error = AcmeError::from(problem(kind));
            assert_eq!(error.failure, failure, "{kind}");
        }
        let text = AcmeError::new(AcmeFailure::Challenge, "no").to_string();
        assert!(text.starts_with("no; check that the name leads"), "{text}");
    }
}
