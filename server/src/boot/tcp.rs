//! Fronts over TCP: the way to them, and their part of a configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderValue;
use sluicegate_config::{Config, Listener};

use super::bind_tcp::TcpSockets;
use super::error::BootError;
use crate::acme::AcmeSettings;
use crate::http::route::Site;
use crate::quic::config_snapshot::ConfigSnapshot;
use crate::quic::secrets::Secrets;
use crate::quic::transport::tcp_context;
use crate::tcp::{FrontCommand, FrontSender, TcpConfig, TcpListenerConfig};
use crate::worker::WorkerHandle;

/// Fronts of all workers, and the listening addresses that they serve.
pub(super) struct Fronts {
    senders: Vec<FrontSender>,
    addresses: Vec<(String, SocketAddr)>,
}

impl Fronts {
    /// Returns the fronts of these workers, with the addresses that were bound for them.
    pub(super) fn new(workers: &[WorkerHandle], bound: &[TcpSockets]) -> Fronts {
        let names = bound.iter();
        Fronts {
            senders: workers.iter().filter_map(|w| w.front.clone()).collect(),
            addresses: names
                .map(|tcp| (tcp.listener.clone(), tcp.address))
                .collect(),
        }
    }

    /// Returns the number of the fronts.
    pub(super) fn count(&self) -> usize {
        self.senders.len()
    }

    /// Sends each front a command.
    pub(super) fn send(&self, command: impl Fn() -> FrontCommand) {
        for sender in &self.senders {
            // A front may have stopped already.
            let _ = sender.send(command());
        }
    }

    /// Makes what the fronts serve of a snapshot.
    ///
    /// # Errors
    /// A certificate or key that cannot be used.
    pub(super) fn prepare(
        &self,
        config: &Config,
        snapshot: &ConfigSnapshot,
        secrets: &Secrets,
    ) -> Result<Arc<TcpConfig>, BootError> {
        tcp_config(config, snapshot, &self.addresses, secrets).map(Arc::new)
    }

    /// Has all fronts serve it.
    pub(super) fn adopt(&self, config: &Arc<TcpConfig>) {
        self.send(|| FrontCommand::Adopt(Arc::clone(config)));
    }
}

/// Makes what fronts serve of a snapshot: its listeners in the order of their addresses.
///
/// # Errors
/// A certificate or key that cannot be used.
fn tcp_config(
    config: &Config,
    snapshot: &ConfigSnapshot,
    addresses: &[(String, SocketAddr)],
    secrets: &Secrets,
) -> Result<TcpConfig, BootError> {
    let challenges = AcmeSettings::of(config).map(|acme| acme.store.challenges());
    let listeners = addresses.iter().map(|(name, address)| {
        let bound = snapshot.bound_listeners.iter().find(|b| b.name == *name);
        let settings = config.listeners.iter().find(|l| l.name == *name);
        let tls = bound.map(|bound| {
            let identities = (&bound.identities.first, &bound.identities.others);
            let context = tcp_context(name, identities, &config.quic, &config.limits, secrets);
            let mut context = context.map_err(|error| BootError::listener(name, error))?;
            if let Some(challenges) = challenges.clone() {
                challenges.answer_tls_alpn_01(&mut context);
            }
            Ok::<_, BootError>(context.build())
        });
        Ok(TcpListenerConfig {
            name: name.as_str().into(),
            tls: tls.transpose()?,
            trusted_proxies: bound
                .map(|b| Arc::clone(&b.trusted_proxies))
                .unwrap_or_default(),
            alt_svc: settings.and_then(|settings| alt_svc(settings, address.port())),
        })
    });
    Ok(TcpConfig {
        site: Arc::<Site>::clone(&snapshot.site),
        access: snapshot.access.clone(),
        idle_timeout: config.quic.idle_timeout,
        challenges: challenges.clone(),
        listeners: listeners.collect::<Result<_, BootError>>()?,
    })
}

/// Returns the field that advertises HTTP/3 at `port`.
fn alt_svc(listener: &Listener, port: u16) -> Option<HeaderValue> {
    let seconds = listener.alt_svc.as_secs();
    let text = (seconds > 0).then(|| format!("h3=\":{port}\"; ma={seconds}"))?;
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_advertise_the_port_for_the_time_that_is_configured() {
        let mut listener = Config::embedded().listeners[0].clone();
        let value = alt_svc(&listener, 4433).unwrap();
        assert_eq!(value, "h3=\":4433\"; ma=86400");
        listener.alt_svc = std::time::Duration::ZERO;
        assert_eq!(alt_svc(&listener, 4433), None);
    }
}
