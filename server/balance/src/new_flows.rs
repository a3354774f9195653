//! Rate of new flows.

use std::time::{Duration, Instant};

use sluicegate_base::token_bucket::TokenBucket;

/// Kind of the first datagram of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// It names a server.
    Named,
    /// It may begin a connection.
    Connection,
    /// None of both, such as one of a server without an ID.
    Other,
}

/// Rate of new flows, each of which costs a socket.
///
/// Clients that change their address have a share of their own, so that a flood of new connections does not keep them out. What neither
/// names a server nor begins a connection leaves half of the other share to what does.
#[derive(Debug)]
pub(crate) struct NewFlows {
    /// Time of the first flow.
    start: Option<Instant>,
    named: TokenBucket,
    others: TokenBucket,
    half: u32,
}

impl NewFlows {
    pub(crate) fn new(per_second: u32) -> NewFlows {
        let bucket = TokenBucket::new(per_second, per_second);
        NewFlows { start: None, named: bucket.clone(), others: bucket, half: per_second / 2 }
    }

    /// Takes another rate. The flows of the last second count.
    pub(crate) fn change_to(&mut self, per_second: u32) {
        let bucket = TokenBucket::new(per_second, per_second);
        self.named.change_to(bucket.clone());
        self.others.change_to(bucket);
        self.half = per_second / 2;
    }

    /// Returns whether a flow may begin; if so, it is counted.
    pub(crate) fn admit(&mut self, opening: Opening, now: Instant) -> bool {
        let passed: Duration = now.saturating_duration_since(*self.start.get_or_insert(now));
        match opening {
            Opening::Named => self.named.allow(passed),
            Opening::Connection => self.others.allow(passed),
            Opening::Other => self.others.allow_leaving(passed, self.half),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_base::clock;

    use super::*;

    #[test]
    fn no_kind_of_flow_keeps_a_better_one_out() {
        let mut flows = NewFlows::new(10);
        let mut admitted = |opening, now| (0..99).filter(|_| flows.admit(opening, now)).count();
        let start = clock::now();
        assert_eq!(admitted(Opening::Other, start), 5);
        assert_eq!(admitted(Opening::Connection, start), 5);
        assert_eq!(admitted(Opening::Named, start), 10);
        let later = start + Duration::from_millis(300);
        assert_eq!(admitted(Opening::Other, later), 0);
        assert_eq!(admitted(Opening::Connection, later), 3);
        assert_eq!(admitted(Opening::Named, later), 3);
        flows.change_to(20);
        let all = (0..99).filter(|_| flows.admit(Opening::Named, later));
        assert_eq!(all.count(), 10, "the last second had ten");
    }
}
