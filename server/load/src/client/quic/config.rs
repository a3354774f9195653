//! quiche's configuration of a client.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use sluicegate_cc::Registry;

use crate::options::LoadArgs;
use crate::plan::Plan;
use crate::tls;

/// Silence that ends a connection, milliseconds. As in h2load, and so is the number of streams below.
const IDLE_MS: u64 = 30_000;
/// Unidirectional streams that a server may open.
const UNI_STREAMS: u64 = 100;
/// Largest window of a stream that h2load offers over QUIC, bytes.
const MAX_STREAM_WINDOW: u64 = (1 << 26) - 1;

/// Returns a thread's configuration.
///
/// # Errors
/// There is no such congestion control or group, or the file of issuers cannot be used.
pub(crate) fn config(options: &LoadArgs, registry: &Registry) -> anyhow::Result<quiche::Config> {
    let tls = tls::context(options)?;
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
    let window = (1 << options.window_bits) - 1;
    let window = MAX_STREAM_WINDOW.min(window);
    let connection_window = (1 << options.connection_window_bits) - 1;
    config.set_application_protos(quiche::h3::APPLICATION_PROTOCOL)?;
    config.set_max_idle_timeout(IDLE_MS);
    config.set_max_recv_udp_payload_size(65_527);
    config.set_max_send_udp_payload_size(options.max_udp_payload_size);
    config.set_initial_max_data(connection_window);
    config.set_max_connection_window(connection_window);
    config.set_initial_max_stream_data_bidi_local(window);
    config.set_initial_max_stream_data_uni(window);
    config.set_max_stream_window(window);
    config.set_initial_max_streams_uni(UNI_STREAMS);
    config.set_disable_active_migration(true);
    config.grease(false);
    let algorithm = registry.find(&options.cc).ok_or_else(|| {
        let names: Vec<_> = registry.names().collect();
        anyhow!("--cc {}: known are {}", options.cc, names.join(", "))
    })?;
    let factory = quiche::cc::Factory::new(*algorithm, algorithm.defaults());
    config.set_cc_factory(factory);
    Ok(config)
}

/// Starts a connection from `local` to `peer`.
///
/// # Errors
/// The name is none that TLS can send, or the file of a trace cannot be made.
pub(super) fn connect(
    config: &mut quiche::Config,
    plan: &Plan,
    (local, peer): (SocketAddr, SocketAddr),
    trace: Option<&Path>,
) -> anyhow::Result<quiche::Connection> {
    let mut id = [0; 8];
    boring::rand::rand_bytes(&mut id)?;
    let id = quiche::ConnectionId::from_ref(&id);
    let name = plan.server_name.as_deref();
    let mut connection = quiche::connect(name, &id, local, peer, config)?;
    if name.is_none() {
        // An address is no server name (RFC 6066 §3), and is looked for elsewhere in the certificate.
        connection.as_mut().param_mut().set_ip(peer.ip())?;
    }
    if let Some(path) = trace {
        let file = std::fs::File::create(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let title = "sluicegate load".to_owned();
        connection.set_qlog(Box::new(std::io::BufWriter::new(file)), title.clone(), title);
    }
    Ok(connection)
}

/// Returns the silence after which an established connection needs a PING to stay open: half of the shorter idle timeout, so that
/// there is time to repeat it (RFC 9000 §10.1.2).
pub(super) fn ping_after(connection: &quiche::Connection) -> Duration {
    let params = connection.peer_transport_params();
    // 0 is none.
    let of_peer = params.map_or(0, |params| params.max_idle_timeout);
    let idle = if of_peer == 0 { IDLE_MS } else { IDLE_MS.min(of_peer) };
    Duration::from_millis((idle / 2).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    #[test]
    fn every_algorithm_of_the_registry_serves_and_others_are_named() {
        let registry = Registry::builtin();
        let with = |words: &[&str]| config(&options::parse(words).unwrap(), &registry).map(drop);
        for name in registry.names() {
            with(&["--cc", name]).unwrap();
        }
        let error = with(&["--cc", "none"]).unwrap_err().to_string();
        assert!(error.contains("none") && error.contains("cubic"), "{error}");
        assert!(with(&["--groups", "X25519:P-256"]).is_ok());
        assert!(with(&["--groups", "none"]).is_err());
        assert!(with(&["--cacert", "/nowhere"]).is_err());
    }
}
