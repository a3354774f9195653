//! What keeps responses of a connection from being sent.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use sluicegate_base::observe::account::{Account, AccountMark, Wait};

/// Account of a connection, as far as it is known above TCP.
///
/// While the system takes nothing, acknowledgements are awaited: of a slow path, or of a client that does not read. While it does, a
/// response over HTTP/2 that is not sent waits for its window; one over HTTP/1.1 for its turn.
#[derive(Debug)]
pub(super) struct LinkAccount {
    account: RefCell<Account>,
    otherwise: Cell<Wait>,
    clock: fn() -> Instant,
}

impl LinkAccount {
    /// Begins the account of a connection of HTTP/1.1.
    pub(super) fn begin(clock: fn() -> Instant) -> LinkAccount {
        LinkAccount {
            account: RefCell::new(Account::begin(Wait::Scheduling, clock())),
            otherwise: Cell::new(Wait::Scheduling),
            clock,
        }
    }

    /// Notes that the connection speaks HTTP/2.
    pub(super) fn speaks_http2(&self) {
        self.otherwise.set(Wait::StreamFlow);
        self.enter(Wait::StreamFlow);
    }

    /// Notes whether the system takes anything.
    pub(super) fn set_blocked(&self, is_blocked: bool) {
        self.enter(if is_blocked { Wait::Acknowledgement } else { self.otherwise.get() });
    }

    fn enter(&self, wait: Wait) {
        self.account.borrow_mut().enter(wait, (self.clock)());
    }

    /// Returns the time, and the account until then.
    pub(super) fn moment(&self) -> (Instant, AccountMark) {
        let now = (self.clock)();
        (now, self.account.borrow().at(now))
    }
}
