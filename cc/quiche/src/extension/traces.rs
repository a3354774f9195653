//! Traces of running connections, and records of the application.
//!
//! The build script places this file at `extension/traces.rs` of the patched source.

use std::time::Instant;

use qlog::events::quic::MtuUpdated;
use qlog::events::quic::TransportInitiator;
use qlog::events::EventData;

use super::limits::MIN_CREDIT;
use crate::recovery::RecoveryOps;
use crate::BufFactory;
use crate::Connection;

impl<F: BufFactory> Connection<F> {
    /// Writes into a trace that has begun in the middle of the connection what one from the beginning would contain by now: the
    /// peer's transport parameters, the size of datagrams, figures and state of congestion control.
    pub fn trace_state(&mut self) {
        let now = crate::clock::now();
        let established = self.is_established();
        let Some(streamer) = &mut self.qlog.streamer else {
            return;
        };
        if established {
            let parameters = self
                .peer_transport_params
                .to_qlog(TransportInitiator::Remote, self.handshake.cipher());
            streamer.add_event_data_with_instant(parameters, now).ok();
        }
        // Otherwise they follow when it is.
        self.qlog.logged_peer_params = established;
        if let Ok(path) = self.paths.get_active_mut() {
            let size = u32::try_from(path.recovery.max_datagram_size()).unwrap_or(u32::MAX);
            let mtu = MtuUpdated { old: None, new: size, done: None };
            streamer.add_event_data_with_instant(EventData::QuicMtuUpdated(mtu), now).ok();
            path.recovery.restart_qlog();
            path.recovery.maybe_qlog(streamer, now);
        }
    }

    /// Writes a record of the application, if there is a trace of level `Base` or `Extra`. The data must contain no secrets.
    pub fn trace_event(&mut self, name: &str, data: serde_json::Value, at: Instant) {
        if let Some(streamer) = &mut self.qlog.streamer {
            streamer.add_of_application(name, data, at).ok();
        }
    }

    /// Returns the streams whose data waits for the peer's flow control of the stream. Takes time for each stream.
    pub fn blocked_streams(&self) -> impl Iterator<Item = u64> + '_ {
        let blocked = self.streams.iter().filter(|(_, stream)| {
            let has_more = stream.send.blocked_at() == Some(stream.send.max_off());
            has_more && stream.send.cap().is_ok_and(|cap| (cap as u64) < MIN_CREDIT)
        });
        blocked.map(|(id, _)| id)
    }
}
