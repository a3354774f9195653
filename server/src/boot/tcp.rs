//! Fronts over TCP: the way to them, and their part of a configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderValue;
use sluicegate_config::{Config, Listener, PlainHttp};

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
    addresses: Vec<FrontAddress>,
}

/// Address that the fronts serve.
struct FrontAddress {
    listener: String,
    address: SocketAddr,
    /// Port with TLS to which requests are redirected; `None` for an address with TLS.
    https_port: Option<u16>,
}

impl Fronts {
    /// Returns the fronts of these workers, with the addresses that were bound for them.
    pub(super) fn new(workers: &[WorkerHandle], bound: &[TcpSockets]) -> Fronts {
        let names = bound.iter();
        Fronts {
            senders: workers.iter().filter_map(|w| w.front.clone()).collect(),
            addresses: names
                .map(|tcp| FrontAddress {
                    listener: tcp.listener.clone(),
                    address: tcp.address,
                    https_port: tcp.https_port,
                })
                .collect(),
        }
    }

    /// Logs the addresses.
    pub(super) fn announce(&self) {
        for FrontAddress {
            listener,
            address,
            https_port,
        } in &self.addresses
        {
            let tls = https_port.is_none();
            tracing::info!(%listener, %address, tls, "listening over TCP");
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
    addresses: &[FrontAddress],
    secrets: &Secrets,
) -> Result<TcpConfig, BootError> {
    let challenges = AcmeSettings::of(config).map(|acme| acme.store.challenges());
    let listeners = addresses.iter().map(|front_address| {
        let FrontAddress {
            listener: name,
            address,
            https_port,
        } = front_address;
        let bound = snapshot.bound_listeners.iter().find(|b| b.name == *name);
        let settings = config.listeners.iter().find(|l| l.name == *name);
        let with_tls = bound.filter(|_| https_port.is_none());
        let tls = with_tls.map(|bound| {
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
            alt_svc: { settings.filter(|_| https_port.is_none()) }
                .and_then(|settings| alt_svc(settings, address.port())),
            redirect: https_port.and_then(|port| redirect(settings?, port)),
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

/// Returns the port to which requests without TLS are redirected, by default `port`; `None` to serve them.
fn redirect(listener: &Listener, port: u16) -> Option<u16> {
    (listener.http == PlainHttp::Redirect).then(|| listener.https_port.unwrap_or(port))
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
