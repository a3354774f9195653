//! Datagrams that arrive.

use std::time::Instant;

use sluicegate_base::signing;

use super::Connection;
use crate::application::Application;
use crate::ecn::EcnCounters;
use crate::progress::Received;

impl<A: Application> Connection<A> {
    /// Returns whether an overloaded worker is to take a datagram that arrives at `now`.
    pub(crate) fn is_in_credit(&mut self, now: Instant) -> bool {
        self.progress.is_in_credit(now)
    }

    /// Returns whether the client has lately sent only what achieves little.
    pub(crate) fn is_spent(&self) -> bool {
        self.progress.is_spent()
    }

    /// Takes a datagram, and the ECN mark that it arrived with.
    ///
    /// # Errors
    /// The datagram broke the protocol. Either that concerns it alone or the connection is being closed.
    pub(crate) fn receive(
        &mut self,
        datagram: &mut [u8],
        info: quiche::RecvInfo,
        ecn: quiche::Ecn,
        now: Instant,
    ) -> Result<(), quiche::Error> {
        self.activity.on_datagram(now);
        if self.path_size.is_raised(now) {
            self.quic.raise_pmtu();
        }
        let before = self.received();
        self.forget_left_paths(now);
        let received = if self.session.is_some() {
            self.quic.recv_with_ecn(datagram, info, ecn)
        } else {
            let receive = || self.quic.recv_with_ecn(datagram, info, ecn);
            let (received, waits) = signing::step(self.key, receive);
            self.awaits_signature |= waits;
            received
        };
        let received = received.map(drop);
        self.note_path();
        self.progress.on_datagram(before, self.received());
        received
    }

    /// Adds what is new about ECN since the last call.
    pub(crate) fn move_ecn(&mut self, counters: &mut EcnCounters) {
        let now = self.quic.ecn_stats();
        if now != self.ecn {
            counters.add_since(&self.ecn, &now);
            self.ecn = now;
        }
    }

    fn received(&self) -> Received {
        Received {
            packets: self.quic.received_packets(),
            acknowledged: self.quic.acknowledged_bytes(),
            new: self.quic.received_bytes(),
            streams: self.quic.received_stream_bytes(),
        }
    }
}
