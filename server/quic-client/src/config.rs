//! quiche's configuration of a client.

use boring::ssl::SslContextBuilder;
use quiche::{Config, PROTOCOL_VERSION, h3};

/// Flow control limits that a client announces.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Receive window of the connection, bytes.
    pub connection: u64,
    /// Receive window of each request stream, bytes.
    pub stream: u64,
    /// Receive window of each unidirectional stream of the server, bytes.
    pub unidirectional: u64,
    /// Unidirectional streams that the server may open. HTTP/3 needs three (RFC 9114 §6.2).
    pub unidirectional_streams: u64,
}

/// Returns the configuration of clients that speak HTTP/3 with this TLS context. Windows keep their size.
///
/// # Errors
/// quiche cannot use the context.
pub fn config(tls: SslContextBuilder, limits: &Limits) -> quiche::Result<Config> {
    let mut config = Config::with_boring_ssl_ctx_builder(PROTOCOL_VERSION, tls)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.set_initial_max_data(limits.connection);
    config.set_max_connection_window(limits.connection);
    config.set_initial_max_stream_data_bidi_local(limits.stream);
    config.set_initial_max_stream_data_uni(limits.unidirectional);
    config.set_max_stream_window(limits.stream);
    config.set_initial_max_streams_uni(limits.unidirectional_streams);
    Ok(config)
}
