//! Settings of a listener that need no port.

use std::sync::Arc;

use sluicegate_base::observe::certificates::Certificate;
use sluicegate_base::secrets::Secrets;
use sluicegate_base::tls::{
    Alternatives, CertificateSummary, Identities, Identity, ListenerTls, TlsError, TlsOptions,
};
use sluicegate_cc::Registry;
use sluicegate_config::{Config, Listener, Tls};
use sluicegate_http::trusted_proxies::TrustedProxies;
use sluicegate_quic::congestion::selection::Selection;
use sluicegate_quic::transport::server_config;

use super::error::{BootError, ListenerError};
use crate::acme::AcmeStore;
use crate::h3::Http3Session;
use crate::snapshot::ListenerSettings;

/// Parts of a listener's settings before a reload that stay in use.
#[derive(Clone, Copy, Default)]
pub(super) struct PreviousSettings<'a> {
    /// Certificates that are not parsed again, made with the same settings.
    pub(super) alternatives: Option<&'a Alternatives>,
    /// TLS options; `None` to read them from their files.
    pub(super) options: Option<&'a Arc<TlsOptions>>,
    /// Selection whose knowledge of paths stays in use.
    pub(super) selection: Option<&'a Selection>,
}

/// Returns everything of a listener that needs no port, checked.
pub(super) fn prepare(
    listener: &Listener,
    registry: &Registry,
    config: &Config,
    secrets: &Secrets,
    before: PreviousSettings<'_>,
) -> Result<ListenerSettings, BootError> {
    let prepared = try_prepare(listener, registry, config, secrets, before);
    prepared.map_err(|error| BootError::listener(&listener.name, &listener.addresses, error))
}

fn try_prepare(
    listener: &Listener,
    registry: &Registry,
    config: &Config,
    secrets: &Secrets,
    before: PreviousSettings<'_>,
) -> Result<ListenerSettings, ListenerError> {
    let draw_key = secrets.congestion_rules_key();
    let selection = Selection::of(listener, registry, draw_key, before.selection)?;
    let name = &listener.name;
    let mut given = listener.tls.iter();
    let options = match before.options {
        Some(options) => Arc::clone(options),
        None => TlsOptions::load(listener, config.server.open_secrets)?,
    };
    let load = |tls: &Tls| Ok(identity(tls, config)?.with_options(&options));
    let first = match given.next() {
        Some(tls) => load(tls)?,
        None => Identity::self_signed()?.with_options(&options),
    };
    let others = given.map(load).collect::<Result<Vec<_>, TlsError>>()?;
    let all = [&first].into_iter().chain(&others);
    // A self-signed one stands in no table.
    let automatic = listener.tls.iter().map(|tls| !tls.acme.is_empty());
    let all = all.zip(automatic.chain([false]));
    let obtained = all.filter(|(identity, _)| !identity.is_placeholder());
    let expiries = obtained.map(|(identity, automatic)| {
        let CertificateSummary { name: first_name, not_before, not_after } = identity.summary()?;
        Ok(Certificate {
            listener: name.clone(),
            name: first_name,
            not_after,
            not_before,
            automatic,
        })
    });
    let expiries = expiries.collect::<Result<Vec<_>, TlsError>>()?;
    let tls = ListenerTls { listener: name, secrets, quic: &config.quic, limits: &config.limits };
    let others =
        tls.alternatives(&others, before.alternatives.unwrap_or(&Alternatives::default()))?;
    server_config::<Http3Session>(&tls, &first, &others)?;
    let identities = Identities { first, others, expiries };
    Ok(ListenerSettings {
        trusted_proxies: Arc::new(TrustedProxies::of(listener)),
        selection,
        identities: Arc::new(identities),
        ecn: listener.ecn,
    })
}

/// Returns a certificate from its files, or the one that ACME has obtained; until there is one, a self-signed one.
fn identity(tls: &Tls, config: &Config) -> Result<Identity, TlsError> {
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        return Identity::load(certificate, key, config.server.open_secrets);
    }
    let obtained = AcmeStore::of(config).map(|store| store.certificate(&tls.acme));
    let obtained = obtained.transpose().map_err(|cause| TlsError::File {
        path: format!("certificate of ACME for {}", tls.acme.join(", ")),
        cause,
    })?;
    let Some((pem, path)) = obtained.flatten() else {
        return Identity::placeholder(&tls.acme);
    };
    Ok(Identity {
        chain: pem.clone().into_bytes(),
        key: pem.into_bytes(),
        origin: path.display().to_string(),
        options: Arc::default(),
    })
}
