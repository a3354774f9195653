//! HTTP/3 (RFC 9114) for the server: sessions, checks of requests, responses.

mod head;
mod priority;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod queue;
mod request;
mod response;
mod schedule;
mod session;
mod session_context;
mod sharing;
mod write_context;

pub use session::Http3Session;
pub use session_context::SessionContext;

/// Returns the HTTP/3 settings of every connection.
///
/// The announced limit of a header section is twice `limits.header_bytes`. A request between the two gets 431; only a larger
/// one closes the connection, with H3_EXCESSIVE_LOAD.
///
/// # Errors
/// quiche refuses the settings, whatever the limits.
pub fn config(limits: &sluicegate_config::Limits) -> Result<quiche::h3::Config, quiche::h3::Error> {
    let mut config = quiche::h3::Config::new()?;
    config.set_max_field_section_size(limits.header_bytes.saturating_mul(2));
    // WebSocket (RFC 9220 §3).
    config.enable_extended_connect(true);
    // Header compression uses the static table alone: peers fill no memory, and no stream waits for another.
    config.set_qpack_max_table_capacity(0);
    config.set_qpack_blocked_streams(0);
    Ok(config)
}

#[cfg(test)]
mod tests;
