//! What keeps responses of a connection from being sent.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use sluicegate_base::observe::account::{Account, AccountMark, Wait};

/// Account of a connection, as far as the system tells.
///
/// While the system takes nothing, the client's window is full, or acknowledgements are awaited: of a slow path, mostly. While it does,
/// a response over HTTP/2 that is not sent waits for its stream's window; one over HTTP/1.1 for its turn.
#[derive(Debug)]
pub(super) struct LinkAccount {
    account: RefCell<Account>,
    is_http2: Cell<bool>,
    /// Time since which the system takes nothing, up to which the account does not tell why.
    blocked: Cell<Option<Instant>>,
    /// Time for which the client's window had stopped the connection then.
    window_limited: Cell<Duration>,
    clock: fn() -> Instant,
}

impl LinkAccount {
    /// Begins the account of a connection of HTTP/1.1.
    pub(super) fn begin(clock: fn() -> Instant) -> LinkAccount {
        LinkAccount {
            account: RefCell::new(Account::begin(Wait::Scheduling, clock())),
            is_http2: Cell::new(false),
            blocked: Cell::new(None),
            window_limited: Cell::new(Duration::ZERO),
            clock,
        }
    }

    /// Notes that the connection speaks HTTP/2.
    pub(super) fn speaks_http2(&self) {
        self.is_http2.set(true);
        self.account.borrow_mut().enter(self.otherwise(), (self.clock)());
    }

    /// Returns whether the connection speaks HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.is_http2.get()
    }

    /// Returns what a response that is not sent waits for while the system takes bytes.
    fn otherwise(&self) -> Wait {
        if self.is_http2() { Wait::StreamFlow } else { Wait::Scheduling }
    }

    /// Notes that the system takes nothing, and for how long the client's window has stopped the connection so far.
    pub(super) fn on_block(&self, window_limited: Duration) {
        self.blocked.set(Some((self.clock)()));
        self.window_limited.set(window_limited);
    }

    /// Notes that the system takes bytes again.
    pub(super) fn on_unblock(&self, window_limited: Duration) {
        let now = (self.clock)();
        self.close(now, window_limited);
        self.blocked.set(None);
        self.account.borrow_mut().enter(self.otherwise(), now);
    }

    /// Returns the time, and the account until then. `window_limited` returns for how long the client's window has stopped the
    /// connection so far.
    pub(super) fn moment(
        &self,
        window_limited: impl FnOnce() -> Duration,
    ) -> (Instant, AccountMark) {
        let now = (self.clock)();
        if self.blocked.get().is_some() {
            self.close(now, window_limited());
        }
        (now, self.account.borrow().at(now))
    }

    /// Accounts for the time in which the system took nothing, until `now`.
    fn close(&self, now: Instant, window_limited: Duration) {
        let Some(since) = self.blocked.replace(Some(now)) else {
            return;
        };
        let before = self.window_limited.replace(window_limited);
        let limited = window_limited.saturating_sub(before);
        let mut account = self.account.borrow_mut();
        account.enter(Wait::ConnectionFlow, since);
        account.enter(Wait::Acknowledgement, now.min(since + limited));
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_base::clock;

    use super::*;

    thread_local!(static NOW: Cell<Instant> = Cell::new(clock::now()));

    fn now() -> Instant {
        NOW.get()
    }

    fn pass(ms: u64) {
        NOW.set(NOW.get() + Duration::from_millis(ms));
    }

    #[test]
    fn time_without_room_is_the_clients_as_far_as_its_window_was_full() {
        let start = now();
        let account = LinkAccount::begin(now);
        account.speaks_http2();
        let ms = Duration::from_millis;
        pass(5);
        account.on_block(ms(100));
        pass(30);
        account.moment(|| ms(110));
        pass(20);
        account.on_unblock(ms(130));
        pass(7);
        let (now, mark) = account.moment(|| ms(130));
        assert_eq!(now - start, ms(62));
        let mut expected = Account::begin(Wait::StreamFlow, start);
        for (wait, at) in
            [(Wait::ConnectionFlow, 5), (Wait::Acknowledgement, 35), (Wait::StreamFlow, 55)]
        {
            expected.enter(wait, start + ms(at));
        }
        assert_eq!(mark, expected.at(now));
    }
}
