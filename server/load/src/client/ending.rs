//! The end of a connection: what becomes of its requests and figures.

use super::LoadClient;
use crate::context::Context;

impl LoadClient {
    /// Returns why it has had no handshake, if so, at the end of the run.
    pub(crate) fn missing_handshake(&self) -> Option<String> {
        let missing = !self.exchanges.established;
        missing.then(|| self.transport.missing_handshake(&self.exchanges))
    }

    /// Ends the connection: its open requests count as failed if `failed`, and else not at all. Returns how many count as failed.
    pub(crate) fn leave(mut self, failed: bool, cx: &mut Context<'_>) -> u64 {
        self.transport.close();
        // The server's idle timeout does the rest if this is lost.
        let _ = self.transport.flush(&mut self.exchanges, cx);
        cx.handshaking -= u64::from(!self.exchanges.established);
        let waiting: Vec<_> = self.waiting().collect();
        let abandoned = if failed { cx.abandon(&waiting) } else { 0 };
        self.count(cx);
        abandoned
    }

    /// Adds the connection's own figures to the tally.
    fn count(&self, cx: &mut Context<'_>) {
        let exchanges = &self.exchanges;
        if !exchanges.established {
            return;
        }
        let from = cx.counted_from;
        let from = from.map_or(exchanges.begin, |from| from.max(exchanges.begin));
        let time = cx.now.saturating_duration_since(from);
        if !time.is_zero() {
            let thousandths = u128::from(exchanges.completed) * 1_000_000_000_000 / time.as_nanos();
            cx.tally.rate.add(u64::try_from(thousandths).unwrap_or(u64::MAX));
        }
        self.transport.count(&mut cx.tally);
    }
}
