//! quiche's configuration of a client.

use std::time::Duration;

use anyhow::anyhow;
use sluicegate_cc::Registry;
use sluicegate_quic_client::Limits;

use crate::options::LoadArgs;
use crate::tls;

/// Silence that ends a connection. As in h2load, and so is the number of streams below.
pub(super) const IDLE: Duration = Duration::from_secs(30);
/// Unidirectional streams that a server may open.
const UNI_STREAMS: u64 = 100;
/// Largest window of a stream that h2load offers over QUIC, bytes.
const MAX_STREAM_WINDOW: u64 = (1 << 26) - 1;

/// Returns a thread's configuration.
///
/// # Errors
/// There is no such congestion control or group, or the file of issuers cannot be used.
pub(crate) fn config(options: &LoadArgs, registry: &Registry) -> anyhow::Result<quiche::Config> {
    let stream = MAX_STREAM_WINDOW.min((1 << options.window_bits) - 1);
    let limits = Limits {
        connection: (1 << options.connection_window_bits) - 1,
        stream,
        unidirectional: stream,
        unidirectional_streams: UNI_STREAMS,
    };
    let mut config = sluicegate_quic_client::config(tls::context(options)?, &limits)?;
    config.set_max_idle_timeout(IDLE.as_secs() * 1_000);
    config.set_max_recv_udp_payload_size(65_527);
    config.set_max_send_udp_payload_size(options.max_udp_payload_size);
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
