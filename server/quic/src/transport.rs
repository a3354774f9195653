//! quiche's configuration of a listener: transport parameters and TLS.

use sluicegate_base::tls::{Alternatives, Identity, ListenerTls, TlsError};
use thiserror::Error;

use super::application::Application;

/// Error that keeps a listener's transport from being set up.
#[derive(Debug, Error)]
pub enum TransportError {
    /// A certificate, a key or another setting of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// quiche refused a setting.
    #[error("quiche refused the settings: {0}")]
    Engine(#[from] quiche::Error),
}

/// Makes quiche's configuration for connections of a listener, without a congestion controller.
///
/// # Errors
/// A certificate or key that cannot be used, or a setting that quiche refuses.
pub fn server_config<A: Application>(
    tls: &ListenerTls<'_>,
    first: &Identity,
    others: &Alternatives,
) -> Result<quiche::Config, TransportError> {
    let context = tls.quic_context(first, others)?;
    let ListenerTls { quic, limits, .. } = *tls;
    let mut config =
        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context)?;
    config.set_application_protos(A::PROTOCOLS)?;
    let millis = |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    config.set_max_idle_timeout(millis(quic.idle_timeout));
    // With discovery, datagrams begin at 1200 bytes, which every path carries (RFC 9000 §14).
    config.discover_pmtu(quic.path_mtu_discovery);
    config.set_max_recv_udp_payload_size(65_527);
    config.set_initial_rtt(quic.initial_rtt);
    config.set_max_ack_delay(millis(quic.ack_delay));
    config.set_initial_max_data(limits.connection_window);
    config.set_initial_max_stream_data_bidi_remote(limits.stream_window);
    config.set_initial_max_stream_data_bidi_local(limits.stream_window);
    config.set_initial_max_stream_data_uni(limits.stream_window);
    config.set_max_connection_window(limits.connection_window);
    config.set_max_stream_window(limits.stream_window);
    config.set_initial_max_streams_bidi(limits.max_concurrent_streams);
    config.set_initial_max_streams_uni(A::UNI_STREAMS);
    config.set_active_connection_id_limit(limits.cids_per_connection);
    config.set_disable_active_migration(!quic.allows_migration());
    config.enable_pacing(true);
    Ok(config)
}

#[cfg(test)]
mod tests;
