//! Figures of a connection at its end.

use std::time::Instant;

use quiche::WireErrorCode;

use super::Connection;
use crate::application::Application;
use crate::counters::HandshakeFailure;
use crate::ended_connections::EndedConnections;

/// Codes of errors of TLS (RFC 9001 §4.8).
const TLS_ERRORS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;

/// Codes for which the client is not to blame (RFC 9000 §20.1).
const OWN_REASONS: [u64; 2] =
    [WireErrorCode::InternalError as u64, WireErrorCode::ConnectionRefused as u64];

impl<A: Application> Connection<A> {
    /// Adds it to those that have ended.
    pub(crate) fn record_end(&self, ended: &mut EndedConnections, now: Instant) {
        if let Some(path) = self.quic.path_stats().find(|path| path.active) {
            if path.min_rtt.is_some() {
                ended.rtt.record(path.rtt.as_secs_f64());
            }
            ended.probe_timeouts.record(path.total_pto_count as f64);
        }
        let stats = self.quic.stats();
        // A part of nothing is not finite, and counts nowhere.
        ended.lost.record(stats.lost as f64 / stats.sent as f64);
        ended.retransmitted.record(stats.stream_retrans_bytes as f64 / stats.sent_bytes as f64);
        // Few controllers measure a rate of their own, but this compares them all.
        let in_flight = stats.bytes_in_flight_duration.as_secs_f64();
        ended.delivery_rate.record(stats.acked_bytes as f64 / in_flight);
        ended.waits.record(&self.account, now);
    }

    /// Returns why its handshake has failed; asked when it is removed before its handshake is complete.
    pub(crate) fn handshake_failure(&self) -> HandshakeFailure {
        let is_tls = |error: &quiche::ConnectionError| {
            !error.is_app && TLS_ERRORS.contains(&error.error_code)
        };
        // One that displaces it does not wait for its end.
        if !self.is_over() {
            return HandshakeFailure::Displaced;
        }
        if self.given_up {
            return HandshakeFailure::Memory;
        }
        if self.handshake_timed_out || self.quic.is_timed_out() {
            return HandshakeFailure::Timeout;
        }
        match (self.quic.peer_error(), self.quic.local_error()) {
            (Some(error), _) if is_tls(error) => HandshakeFailure::ClientTls,
            (Some(_), _) => HandshakeFailure::ClientClosed,
            (None, Some(error)) if is_tls(error) => HandshakeFailure::Tls,
            (None, Some(error)) if error.is_app || OWN_REASONS.contains(&error.error_code) => {
                HandshakeFailure::ServerClosed
            }
            (None, _) => HandshakeFailure::Protocol,
        }
    }
}
