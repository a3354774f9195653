//! Fronts over TCP: the way to them, and their part of a configuration.

use std::sync::Arc;

use http::HeaderValue;
use sluicegate_base::networks::Networks;
use sluicegate_base::tls::ListenerTls;
use sluicegate_config::{Config, Listener, PlainHttp};
use sluicegate_dataplane::ListenerId;
use sluicegate_http::route::Site;

use super::error::BootError;
use crate::acme::AcmeSettings;
use crate::snapshot::{ConfigSnapshot, Protocols};
use crate::tcp::{FrontCommand, FrontSender, TcpConfig, TcpListenerConfig};
use crate::worker::WorkerHandle;

/// Fronts of all workers.
pub(super) struct Fronts {
    senders: Vec<FrontSender>,
}

impl Fronts {
    pub(super) fn new(workers: &[WorkerHandle]) -> Fronts {
        Fronts { senders: workers.iter().map(|worker| worker.front.clone()).collect() }
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

    /// Has all fronts serve it.
    pub(super) fn adopt(&self, config: Arc<TcpConfig>) {
        self.send(move || FrontCommand::Adopt(Arc::clone(&config)));
    }
}

/// Makes what fronts serve of a snapshot.
///
/// # Errors
/// A certificate or key that cannot be used.
pub(super) fn tcp_config(
    config: &Config,
    snapshot: &ConfigSnapshot,
) -> Result<Arc<TcpConfig>, BootError> {
    let challenges = AcmeSettings::of(config).map(|acme| acme.store.challenges());
    let all = snapshot.bound_listeners.iter();
    let over_tcp = all.clone().filter(|bound| bound.at.protocols.has_tcp());
    let listeners = over_tcp.map(|bound| {
        let (name, settings) = (&bound.name, &bound.settings);
        let listener = config.listeners.iter().find(|l| l.name == *name);
        let mut front = TcpListenerConfig {
            name: name.as_str().into(),
            tls: None,
            trusted_proxies: Arc::clone(&settings.trusted_proxies),
            proxy_protocol: listener
                .map_or_else(Networks::default, |listener| Networks::new(&listener.proxy_protocol)),
            alt_svc: None,
            redirect: None,
        };
        if bound.at.protocols == Protocols::Http {
            // The first address of a listener has TLS.
            let first = all.clone().find(|first| first.name == *name);
            front.redirect = first.and_then(|first| redirect(listener?, first.at.local.port()));
            return Ok((bound.at.id, Arc::new(front)));
        }
        let tls = ListenerTls {
            listener: name,
            secrets: &snapshot.secrets,
            quic: &config.quic,
            limits: &config.limits,
        };
        let context = tls.tcp_context(&settings.identities.first, &settings.identities.others);
        let mut context =
            context.map_err(|error| BootError::listener(name, &[bound.at.local], error))?;
        if let Some(challenges) = challenges.clone() {
            challenges.answer_tls_alpn_01(&mut context);
        }
        front.tls = Some(context.build());
        front.alt_svc = listener.and_then(|listener| alt_svc(listener, bound.at.local.port()));
        Ok((bound.at.id, Arc::new(front)))
    });
    let listeners = listeners.collect::<Result<_, BootError>>()?;
    Ok(Arc::new(TcpConfig {
        site: Arc::<Site>::clone(&snapshot.site),
        logs: snapshot.logs.clone(),
        idle_timeout: config.quic.idle_timeout,
        drain_timeout: config.server.drain_timeout,
        challenges,
        listeners,
    }))
}

/// Logs the addresses of fronts that are new.
pub(super) fn announce(snapshot: &ConfigSnapshot, is_new: impl Fn(ListenerId) -> bool) {
    for bound in &snapshot.bound_listeners {
        let (listener, at) = (&bound.name, &bound.at);
        if at.protocols.has_tcp() && is_new(at.id) {
            let tls = at.protocols != Protocols::Http;
            tracing::info!(%listener, address = %at.local, tls, "listening over TCP");
        }
    }
}

/// Returns the port to which requests without TLS are redirected, by default `port`; `None` to serve them.
fn redirect(listener: &Listener, port: u16) -> Option<u16> {
    (listener.http == PlainHttp::Redirect).then(|| listener.https_port.unwrap_or(port))
}

/// Returns the field that advertises HTTP/3 at the port by which clients reach the listener: `port`, unless it is said to be another.
fn alt_svc(listener: &Listener, port: u16) -> Option<HeaderValue> {
    let port = listener.https_port.unwrap_or(port);
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
        listener.https_port = Some(443);
        let value = alt_svc(&listener, 4433).unwrap();
        assert_eq!(value, "h3=\":443\"; ma=86400");
        listener.alt_svc = std::time::Duration::ZERO;
        assert_eq!(alt_svc(&listener, 4433), None);
    }
}
