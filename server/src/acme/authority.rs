//! The authority's directory, and the account there.

use std::ops::Range;
use std::path::Path;

use instant_acme::{
    Account, AccountCredentials, CertificateIdentifier, ExternalAccountKey, NewAccount,
};
use sluicegate_base::named_file;
use sluicegate_base::observe::acme::AcmeFailure;
use sluicegate_config::Acme;

use super::error::AcmeError;
use super::https::HttpsClient;
use super::settings::AcmeSettings;
use super::store::Lock;

/// An authority at which this server has an account.
pub(super) struct Authority {
    pub(super) account: Account,
}

/// An authority's suggestion of when to renew a certificate (RFC 9773).
pub(super) struct Suggestion {
    /// Times of the renewal, in seconds since 1970.
    pub(super) window: Range<i64>,
    /// Time until the authority is asked again, seconds.
    pub(super) pause: i64,
}

impl Authority {
    /// Reads the directory with the account that is kept, if there is one.
    pub(super) async fn known(settings: &AcmeSettings) -> Result<Option<Authority>, AcmeError> {
        let Some(kept) = settings.store.account() else {
            return Ok(None);
        };
        let Ok(credentials) = serde_json::from_str::<AccountCredentials>(&kept) else {
            tracing::warn!("the account at the ACME directory cannot be read; another one is made");
            settings.store.forget_account();
            return Ok(None);
        };
        let client = Box::new(HttpsClient::new(settings.acme.ca.as_ref())?);
        let builder = Account::builder_with_http(client);
        let account = builder.from_credentials(credentials).await?;
        Ok(Some(Authority { account }))
    }

    /// Makes an account, and keeps it.
    pub(super) async fn register(
        settings: &AcmeSettings,
        _: &Lock,
    ) -> Result<Authority, AcmeError> {
        let acme = &settings.acme;
        let external = external(acme)?;
        let contact = acme.email.as_ref().map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.as_deref().into_iter().collect();
        let wanted = NewAccount {
            contact: &contact,
            terms_of_service_agreed: acme.agree,
            only_return_existing: false,
        };
        let client = Box::new(HttpsClient::new(acme.ca.as_ref())?);
        let builder = Account::builder_with_http(client);
        let directory = acme.directory.clone();
        let (account, credentials) = builder.create(&wanted, directory, external.as_ref()).await?;
        let text = serde_json::to_string(&credentials);
        let text = text.map_err(|error| AcmeError::new(AcmeFailure::Storage, error))?;
        settings.store.keep_account(&text)?;
        tracing::info!(directory = acme.directory, account = account.id(), "made an ACME account");
        Ok(Authority { account })
    }

    /// Returns when the authority suggests to renew a certificate; `None` if it suggests nothing.
    pub(super) async fn suggestion(
        &self,
        certificate: &CertificateIdentifier<'_>,
    ) -> Option<Suggestion> {
        let (suggestion, pause) = match self.account.renewal_info(certificate).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "the ACME directory suggests no time of renewal");
                return None;
            }
        };
        let window = suggestion.suggested_window;
        Some(Suggestion {
            window: window.start.unix_timestamp()..window.end.unix_timestamp(),
            pause: i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
        })
    }
}

/// Returns the key of the account that the operator has at the authority (RFC 8555 §7.3.4).
fn external(acme: &Acme) -> Result<Option<ExternalAccountKey>, AcmeError> {
    let (Some(id), Some(path)) = (&acme.external_id, &acme.external_key) else {
        return Ok(None);
    };
    let key = external_key(path)?;
    Ok(Some(ExternalAccountKey::new(id.clone(), &key)))
}

fn external_key(path: &Path) -> Result<Vec<u8>, AcmeError> {
    let refused = |cause: &str| {
        let cause = format!("acme.external_key {}: {cause}", path.display());
        AcmeError::new(AcmeFailure::Account, cause)
    };
    let text = named_file::read_text(path, named_file::SECRET)
        .map_err(|error| refused(&error.to_string()))?;
    let mut text = text.trim().replace('-', "+").replace('_', "/");
    while text.len() % 4 != 0 {
        text.push('=');
    }
    let key = boring::base64::decode_block(&text);
    key.map_err(|_| refused("not in base64url"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn external_keys_are_base64url_with_padding_or_without() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for (text, key) in [("-__-_w\n", vec![0xfb, 0xff, 0xfe, 0xff]), ("YQ==", b"a".to_vec())] {
            fs::write(&path, text).unwrap();
            assert_eq!(external_key(&path).unwrap(), key, "{text}");
        }
        fs::write(&path, "a key!").unwrap();
        let error = external_key(&path).unwrap_err().to_string();
        assert!(error.contains("not in base64url"), "{error}");
    }
}
