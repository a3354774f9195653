//! Time at which a connection last had work, which decides when a drain may close it.

use std::time::{Duration, Instant};

/// Time that a drain leaves a client after its last response before the connection is closed: what was acknowledged need not have been
/// read, and a client's stack may throw away what was not read when the close arrives. It leaves as much after GOAWAY to who asks
/// nothing: a request that crosses it, perhaps lost and sent again, is rejected, so its client knows that it may send it elsewhere.
const LINGER: Duration = Duration::from_secs(1);

/// The longest such time. A client that took long to take its responses may take as long to read the last of them, as far as its
/// window reaches.
const LONGEST_LINGER: Duration = Duration::from_secs(3);

/// Time that a drain waits for a silent client which has the last of its responses to acknowledge and was probed for
/// that: programs end without a word.
const SILENCE: Duration = Duration::from_secs(5);

/// Latest requests and datagrams of a connection.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    requests: Requests,
    /// Requests that the session had taken when it was last looked at.
    taken: u64,
    /// Receive time of the last datagram.
    heard: Option<Instant>,
}

/// Requests of a connection.
#[derive(Clone, Copy, Debug)]
enum Requests {
    /// No request has arrived.
    None,
    /// Some are open since then, or parts of their responses are unacknowledged.
    OpenSince(Instant),
    /// The client has had every response since then, and may still read for that long.
    DoneSince(Instant, Duration),
}

/// Time since which no request of a connection is open. Of two connections the lesser one gives way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Idle {
    /// There was none.
    SinceStart(Instant),
    /// The client has had every response since then.
    SinceRequest(Instant),
}

/// Unfinished work of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The handshake is complete, or requests in early data wait for it.
    pub(super) established: bool,
    /// Requests taken so far.
    pub(super) taken: u64,
    /// No request is open.
    pub(super) idle: bool,
    /// Something was sent and not acknowledged, or is to be sent again.
    pub(super) unacked: bool,
}

impl Activity {
    /// Returns a connection that begins.
    pub(super) fn new(begun: Instant) -> Self {
        Self { begun, requests: Requests::None, taken: 0, heard: None }
    }

    /// Returns when the last datagram arrived.
    pub(super) fn heard(&self) -> Instant {
        self.heard.unwrap_or(self.begun)
    }

    /// Returns since when no request is open; `None` while some are.
    pub(super) fn idle(&self) -> Option<Idle> {
        match self.requests {
            Requests::None => Some(Idle::SinceStart(self.begun)),
            Requests::OpenSince(_) => None,
            Requests::DoneSince(end, _) => Some(Idle::SinceRequest(end)),
        }
    }

    /// A datagram of the client arrived.
    pub(super) fn on_datagram(&mut self, now: Instant) {
        self.heard = Some(now);
    }

    /// Notices new requests, and when the last response has reached the client. Returns whether it has only now. `unacked` costs
    /// a look at the paths and is called only where it matters.
    pub(super) fn note(
        &mut self,
        taken: u64,
        idle: bool,
        unacked: impl FnOnce() -> bool,
        now: Instant,
    ) -> bool {
        // One may have arrived and been answered at once.
        if std::mem::replace(&mut self.taken, taken) != taken
            && !matches!(self.requests, Requests::OpenSince(_))
        {
            self.requests = Requests::OpenSince(now);
        }
        match self.requests {
            Requests::OpenSince(begin) if idle && !unacked() => {
                let time = now.saturating_duration_since(begin);
                self.requests = Requests::DoneSince(now, time.clamp(LINGER, LONGEST_LINGER));
                true
            }
            _ => false,
        }
    }

    /// Returns when a drain that began at `since` may close the connection if nothing happens before; `None` while requests
    /// are open. A handshake without a request is not waited for: its client may never finish it.
    pub(super) fn finishes_at(
        &mut self,
        load: Load,
        since: Instant,
        now: Instant,
    ) -> Option<Instant> {
        self.note(load.taken, load.idle, || load.unacked, now);
        let crossed = since + LINGER;
        match self.requests {
            Requests::OpenSince(_) if load.idle => {
                let spoke = self.heard.map_or(since, |heard| heard.max(since));
                Some(spoke + SILENCE)
            }
            Requests::OpenSince(_) => None,
            Requests::None if !load.established => Some(now),
            Requests::None => Some(crossed),
            Requests::DoneSince(end, linger) => Some(crossed.max(end + linger)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Load = Load { established: true, taken: 0, idle: true, unacked: false };

    #[test]
    fn a_drain_waits_for_what_is_open_and_a_while_for_the_rest() {
        let start = sluicegate_base::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut activity = Activity::new(start);
        assert_eq!(activity.finishes_at(IDLE, at(0), at(5)), Some(at(1000)));
        let handshaking = Load { established: false, unacked: true, ..IDLE };
        assert_eq!(activity.finishes_at(handshaking, at(0), at(5)), Some(at(5)));
        let unacked = Load { unacked: true, ..IDLE };
        assert_eq!(activity.finishes_at(unacked, at(0), at(5)), Some(at(1000)));
        let open = Load { taken: 1, idle: false, ..unacked };
        assert_eq!(activity.finishes_at(open, at(0), at(5)), None);
        activity.on_datagram(at(20));
        let answered = Load { idle: true, ..open };
        assert_eq!(activity.finishes_at(answered, at(10), at(25)), Some(at(5020)));
        let acknowledged = Load { unacked: false, ..answered };
        assert_eq!(activity.finishes_at(acknowledged, at(10), at(30)), Some(at(1030)));
        assert_eq!(activity.finishes_at(acknowledged, at(10), at(900)), Some(at(1030)));
    }

    #[test]
    fn who_has_taken_long_may_take_as_long_to_read_the_rest() {
        let start = sluicegate_base::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        for (time, linger) in [(400, 1000), (2000, 2000), (60_000, 3000)] {
            let mut activity = Activity::new(start);
            let open = Load { taken: 1, idle: false, ..IDLE };
            assert_eq!(activity.finishes_at(open, at(0), at(0)), None);
            // Another request meanwhile does not shorten it.
            let open = Load { taken: 2, ..open };
            assert_eq!(activity.finishes_at(open, at(0), at(time / 2)), None);
            let done = Load { idle: true, ..open };
            assert_eq!(activity.finishes_at(done, at(0), at(time)), Some(at(time + linger)));
        }
    }
}
