//! Failures to obtain a certificate.

use std::io;
use std::path::Path;

use thiserror::Error;

use crate::observe::acme::AcmeFailure;

/// Failure to obtain a certificate: what failed, and what the operator can do.
#[derive(Debug, Error)]
#[error("{cause}; {remedy}")]
pub(super) struct AcmeError {
    pub(super) failure: AcmeFailure,
    cause: String,
    remedy: &'static str,
}

impl AcmeError {
    /// Returns a failure with the remedy that its kind has.
    pub(super) fn new(failure: AcmeFailure, cause: impl ToString) -> AcmeError {
        AcmeError {
            failure,
            cause: cause.to_string(),
            remedy: remedy(failure),
        }
    }

    /// Returns a failure of the state directory.
    pub(super) fn storage(path: &Path, cause: &io::Error) -> AcmeError {
        let cause = format!("{}: {cause}", path.display());
        AcmeError::new(AcmeFailure::Storage, cause)
    }
}

impl From<instant_acme::Error> for AcmeError {
    fn from(error: instant_acme::Error) -> AcmeError {
        let failure = match &error {
            instant_acme::Error::Api(problem) => {
                of_problem(problem.r#type.as_deref().unwrap_or_default())
            }
            _ => AcmeFailure::Directory,
        };
        AcmeError::new(failure, error)
    }
}

/// Returns the failure that a type of problem stands for (RFC 8555 §6.7).
fn of_problem(kind: &str) -> AcmeFailure {
    match kind.rsplit(':').next().unwrap_or_default() {
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
             `http_address` of a [[listener]] there"
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

    #[test]
    fn problems_have_a_reason_and_a_remedy() {
        for (kind, failure) in [
            (
                "urn:ietf:params:acme:error:rateLimited",
                AcmeFailure::RateLimit,
            ),
            ("urn:ietf:params:acme:error:dns", AcmeFailure::Challenge),
            (
                "urn:ietf:params:acme:error:externalAccountRequired",
                AcmeFailure::Account,
            ),
            (
                "urn:ietf:params:acme:error:rejectedIdentifier",
                AcmeFailure::Refused,
            ),
            ("", AcmeFailure::Refused),
        ] {
            assert_eq!(of_problem(kind), failure, "{kind}");
        }
        let text = AcmeError::new(AcmeFailure::Challenge, "no").to_string();
        assert!(text.starts_with("no; check that the name leads"), "{text}");
    }
}
