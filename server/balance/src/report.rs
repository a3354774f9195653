//! What the log says of the totals: in short at a reload and each minute, and at the end.

use std::time::{Duration, Instant};

use crate::counters::Counters;

/// Time between two reports.
const INTERVAL: Duration = Duration::from_secs(60);

/// Logs the totals at a level, as those at the end or of the time so far.
macro_rules! log_totals {
    ($level:ident, $flows:literal, $datagrams:literal, $counters:expr, $open:expr) => {
        let counters: &Counters = $counters;
        tracing::$level!(
            opened = counters.opened,
            expired = counters.expired,
            failed = counters.failed,
            evicted = counters.evicted,
            open = $open,
            $flows
        );
        tracing::$level!(
            by_id = counters.by_id,
            by_flow = counters.by_flow,
            by_hash = counters.by_hash,
            from_servers = counters.from_servers,
            malformed = counters.malformed,
            unanswerable = counters.unanswerable,
            no_server = counters.no_server,
            no_room = counters.no_room,
            rate_limited = counters.rate_limited,
            no_socket = counters.no_socket,
            foreign = counters.foreign,
            refused = counters.refused,
            blocked = counters.blocked,
            $datagrams
        );
    };
}

/// Logs the totals at the end.
pub(crate) fn log_end(counters: &Counters, open: usize) {
    log_totals!(info, "total of flows", "total of datagrams", counters, open);
}

/// Logs the totals so far.
pub(crate) fn log_so_far(counters: &Counters, open: usize) {
    log_totals!(info, "flows so far", "datagrams so far", counters, open);
}

/// Changes since the last report.
#[derive(Debug)]
pub(crate) struct MinuteReport {
    next: Instant,
    /// Totals of the last report.
    last: Counters,
}

impl MinuteReport {
    pub(crate) fn new(now: Instant) -> MinuteReport {
        MinuteReport { next: now + INTERVAL, last: Counters::default() }
    }

    /// Returns the time of the next report.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.next
    }

    /// Logs the totals if a minute has passed and they have changed, and warns of what was lost for want of room.
    pub(crate) fn on_time(&mut self, counters: &Counters, open: usize, now: Instant) {
        let Some(news) = self.take(counters, now) else { return };
        log_totals!(debug, "flows so far", "datagrams so far", counters, open);
        if news.has_lost() {
            tracing::warn!(
                evicted = news.evicted,
                no_server = news.no_server,
                no_room = news.no_room,
                rate_limited = news.rate_limited,
                no_socket = news.no_socket,
                blocked = news.blocked,
                "in the last minute flows gave way or datagrams were dropped; docs/balance.md tells why"
            );
        }
    }

    /// Returns what has changed, if a minute has passed.
    fn take(&mut self, counters: &Counters, now: Instant) -> Option<Counters> {
        if now < self.next {
            return None;
        }
        self.next = now + INTERVAL;
        let last = std::mem::replace(&mut self.last, *counters);
        Some(counters.since(&last)).filter(|news| *news != Counters::default())
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_base::clock;

    use super::*;

    #[test]
    fn a_minute_reports_what_it_has_changed() {
        let start = clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut report = MinuteReport::new(start);
        let mut counters = Counters { by_id: 5, ..Counters::default() };
        assert_eq!(report.take(&counters, at(59)), None);
        let news = report.take(&counters, at(60)).unwrap();
        assert_eq!((news, news.has_lost()), (counters, false));
        assert_eq!(report.take(&counters, at(120)), None, "nothing has changed");
        assert_eq!(report.next_deadline(), at(180));
        (counters.by_id, counters.rate_limited) = (9, 2);
        let news = report.take(&counters, at(200)).unwrap();
        assert_eq!(news, Counters { by_id: 4, rate_limited: 2, ..Counters::default() });
        assert!(news.has_lost());
        assert_eq!(report.take(&counters, at(259)), None);
    }
}
