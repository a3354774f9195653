//! HTTP/3 (RFC 9114) for the server: sessions, checks of requests, replies.

mod counters;
mod date;
mod priority;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod request;
mod response;
mod session;
mod session_context;
mod statuses;

pub use counters::Counters;
pub use session::Session;
pub use session_context::SessionContext;
pub use statuses::Statuses;

/// HTTP/3 settings for every connection.
///
/// The header section that is announced and decoded is twice `limits.header_bytes`: what lies between gets 431, and only
/// what exceeds it closes the connection, with H3_EXCESSIVE_LOAD.
///
/// # Errors
/// None that depends on `limits`.
pub fn config(limits: &sluicegate_config::Limits) -> Result<quiche::h3::Config, quiche::h3::Error> {
    let mut config = quiche::h3::Config::new()?;
    config.set_max_field_section_size(limits.header_bytes.saturating_mul(2));
    // Header compression is with the static table alone: no memory for peers to fill, no stream that waits for another.
    config.set_qpack_max_table_capacity(0);
    config.set_qpack_blocked_streams(0);
    Ok(config)
}

#[cfg(test)]
mod tests;
