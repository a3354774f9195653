//! The end of a connection: why it has come, and what becomes of its requests and figures.

use std::time::Instant;

use super::{Client, NO_ERROR};
use crate::context::Context;
use crate::end::{self, End};

impl Client {
    /// Returns the end of a connection that one of the two sides has closed.
    pub(super) fn why_over(&mut self) -> End {
        let by_peer = self.quic.peer_error();
        let orderly = by_peer.is_some_and(|e| e.is_app && e.error_code == NO_ERROR);
        if orderly && self.open.is_empty() && self.first_byte {
            return End::GoneAway;
        }
        end::of_connection(&mut self.quic, self.socket.peer)
    }

    /// Returns the end after GOAWAY. A server that has not responded to anything would do the same with the next connection.
    pub(super) fn gone_away(&self) -> End {
        if self.first_byte {
            return End::GoneAway;
        }
        let peer = self.socket.peer;
        End::Failed(format!("{peer} takes no requests (GOAWAY or rejections)"))
    }

    /// Returns the time at which an option's timeout closes it.
    pub(super) fn closes_at(&self, cx: &Context<'_>) -> Option<Instant> {
        let options = &cx.plan.options;
        let active = options.connection_active_timeout.zip(self.last_request);
        let inactive = options.connection_inactivity_timeout;
        let active = active.map(|(limit, last)| last + limit);
        let inactive = inactive.map(|limit| self.heard_at + limit);
        active.into_iter().chain(inactive).min()
    }

    /// Returns why it has had no handshake, if so, at the end of the run.
    pub(crate) fn missing_handshake(&self) -> Option<String> {
        let missing = !self.established;
        missing.then(|| end::of_handshake(self.socket.peer, self.heard))
    }

    /// Closes the connection without an error.
    pub(super) fn close(&mut self) {
        // It may be closed already.
        let _ = self.quic.close(true, NO_ERROR, b"");
    }

    /// Ends the connection: its open requests count as failed if `failed`, and else not at all. Returns how many count as failed.
    pub(crate) fn leave(mut self, failed: bool, cx: &mut Context<'_>) -> u64 {
        self.close();
        // The server's idle timeout does the rest if this is lost.
        let _ = self.flush(cx);
        cx.handshaking -= u64::from(!self.established);
        let waiting: Vec<_> = self.waiting().collect();
        let abandoned = if failed { cx.abandon(&waiting) } else { 0 };
        self.count(cx);
        abandoned
    }

    /// Adds the connection's own figures to the tally.
    fn count(&self, cx: &mut Context<'_>) {
        if !self.established {
            return;
        }
        let from = cx.counted_from;
        let from = from.map_or(self.begin, |from| from.max(self.begin));
        let time = cx.now.saturating_duration_since(from);
        let tally = &mut cx.tally;
        if !time.is_zero() {
            let thousandths = u128::from(self.completed) * 1_000_000_000_000 / time.as_nanos();
            tally
                .rate
                .add(u64::try_from(thousandths).unwrap_or(u64::MAX));
        }
        if let Some(path) = self.quic.path_stats().next() {
            if let Some(rtt) = path.min_rtt {
                tally.min_rtt.add_time(rtt);
                tally.smoothed_rtt.add_time(path.rtt);
            }
            tally.packets_sent.add(path.sent as u64);
            tally.packets_received.add(path.recv as u64);
            tally.packets_lost.add(path.lost as u64);
        }
    }
}
