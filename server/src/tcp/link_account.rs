//! What a connection waits for.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use sluicegate_base::observe::account::{Account, AccountMark, Wait};

use super::socket_info::SocketInfo;

/// Time without a block after which data that moves proves that only the data's source is awaited: between two blocks a download fills the
/// system's buffer at once.
const FLOWS: Duration = Duration::from_millis(10);

/// Account of a connection, as far as the system tells.
///
/// While the system takes nothing, the client's window is full, or acknowledgements are awaited: of a slow path, mostly. While it does,
/// a response over HTTP/2 that is not sent waits for its stream's window; one over HTTP/1.1 for its turn.
#[derive(Debug)]
pub(super) struct LinkAccount {
    account: RefCell<Account>,
    is_http2: Cell<bool>,
    /// What it waits for while no response waits to be sent.
    rest: Cell<Wait>,
    /// Requests whose responses wait to be sent.
    held: Cell<u32>,
    blocked: Cell<Option<Block>>,
    /// Time since which the system has taken all, and the windows of HTTP/2 have held nothing back.
    open_since: Cell<Instant>,
    /// Time of the last write while it waited for its client, such as that of a ping's reply.
    idle_write: Cell<Option<Instant>>,
    clock: fn() -> Instant,
}

/// Time in which the system takes nothing. The account does not tell why before its end, or a look.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Its beginning, and for how long the client's window had stopped the connection before.
    begun: (Instant, Duration),
    /// The same of the part that the account does not have yet.
    rest: (Instant, Duration),
}

/// State of a connection at a moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LinkState {
    pub(super) now: Instant,
    pub(super) mark: AccountMark,
    /// Current wait, and its length so far.
    pub(super) wait: Wait,
    pub(super) waiting: Duration,
    /// Time for which it has waited for anything but its client, without a break.
    pub(super) busy: Duration,
    /// Time since it began.
    pub(super) age: Duration,
    /// Time spent on each wait. The sum is the age.
    pub(super) spent: Vec<(Wait, Duration)>,
}

impl LinkAccount {
    /// Begins the account of a connection in its handshake.
    pub(super) fn begin(clock: fn() -> Instant) -> LinkAccount {
        let now = clock();
        LinkAccount {
            account: RefCell::new(Account::begin(Wait::Handshake, now)),
            is_http2: Cell::new(false),
            rest: Cell::new(Wait::Handshake),
            held: Cell::new(0),
            blocked: Cell::new(None),
            open_since: Cell::new(now),
            idle_write: Cell::new(None),
            clock,
        }
    }

    /// Notes that the handshake is complete.
    pub(super) fn on_open(&self, is_http2: bool) {
        self.is_http2.set(is_http2);
        self.on_idle((self.clock)());
    }

    /// Notes that there are open requests.
    pub(super) fn on_busy(&self, now: Instant) {
        self.rest.set(Wait::Application);
        self.settle(now);
    }

    /// Notes that there are no open requests any more.
    pub(super) fn on_idle(&self, now: Instant) {
        self.rest.set(Wait::Client);
        self.settle(now);
    }

    /// Returns whether the handshake is complete.
    pub(super) fn is_open(&self) -> bool {
        self.rest.get() != Wait::Handshake
    }

    /// Returns whether the connection speaks HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.is_http2.get()
    }

    /// Has the account enter what the connection waits for while the system takes bytes.
    fn settle(&self, now: Instant) {
        if self.blocked.get().is_none() {
            let wait = match self.held.get() {
                0 => self.rest.get(),
                _ if self.is_http2() => Wait::StreamFlow,
                _ => Wait::Scheduling,
            };
            self.account.borrow_mut().enter(wait, now);
        }
    }

    /// Returns whether the system took nothing of the last write.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.get().is_some()
    }

    /// Notes that the system takes nothing, and for how long the client's window has stopped the connection so far.
    pub(super) fn on_block(&self, window_limited: Duration) {
        let begun = ((self.clock)(), window_limited);
        self.blocked.set(Some(Block { begun, rest: begun }));
    }

    /// Notes that the system takes bytes again.
    pub(super) fn on_unblock(&self, window_limited: Duration) {
        let now = (self.clock)();
        self.close(now, window_limited);
        self.blocked.set(None);
        self.open_since.set(now);
        self.settle(now);
    }

    /// Notes that the system has taken bytes.
    pub(super) fn on_write(&self) {
        // With open requests, the wait for the client begins later than any write.
        if self.rest.get() == Wait::Client {
            self.idle_write.set(Some((self.clock)()));
        }
    }

    /// Notes that a body moves. If the system takes all, and no response waits for its client, neither client nor path is late.
    pub(super) fn on_data(&self) {
        let waits = self.is_http2() && self.held.get() > 0;
        if self.rest.get() == Wait::Application && !waits && !self.is_blocked() {
            let now = (self.clock)();
            if now.saturating_duration_since(self.open_since.get()) >= FLOWS {
                self.account.borrow_mut().note_progress(now);
            }
        }
    }

    /// Notes that a response begins to wait to be sent, or no longer does. Returns the same as [`LinkAccount::moment`].
    pub(super) fn on_held(
        &self,
        is_held: bool,
        window_limited: impl FnOnce() -> Duration,
    ) -> (Instant, AccountMark) {
        let moment = self.moment(window_limited);
        let held = self.held.get();
        self.held.set(if is_held { held + 1 } else { held.saturating_sub(1) });
        if self.is_http2() {
            self.open_since.set(moment.0);
        }
        self.settle(moment.0);
        moment
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

    /// Returns the state, for an operator, by what the system tells now.
    pub(super) fn state(&self, told: &SocketInfo) -> LinkState {
        let (now, mark) = self.moment(|| told.window_limited());
        let account = self.account.borrow();
        let (wait, since) = account.wait();
        let mut state = LinkState {
            now,
            mark,
            wait,
            waiting: now.saturating_duration_since(since),
            busy: account.busy(now),
            age: account.age(now),
            spent: account.spent(now).filter(|(_, time)| !time.is_zero()).collect(),
        };
        if let Some(Block { begun: (since, before), .. }) = self.blocked.get() {
            state.waiting = now.saturating_duration_since(since);
            let limited = told.window_limited().saturating_sub(before);
            let is_limited = 2 * limited >= state.waiting;
            state.wait = if is_limited { Wait::ConnectionFlow } else { Wait::Acknowledgement };
        } else if wait == Wait::Client
            && let Some(longest) = told.unacknowledged()
        {
            let since_write = self.idle_write.get().map(|at| now.saturating_duration_since(at));
            let longest = since_write.map_or(longest, |time| time.min(longest));
            state.await_acknowledgement(longest, told.is_window_shut());
        }
        state
    }

    /// Accounts for the time in which the system took nothing, until `now`.
    fn close(&self, now: Instant, window_limited: Duration) {
        let Some(mut block) = self.blocked.get() else {
            return;
        };
        let (since, before) = std::mem::replace(&mut block.rest, (now, window_limited));
        self.blocked.set(Some(block));
        let limited = window_limited.saturating_sub(before);
        let mut account = self.account.borrow_mut();
        account.enter(Wait::ConnectionFlow, since);
        account.enter(Wait::Acknowledgement, now.min(since + limited));
    }
}

impl LinkState {
    /// Counts the wait for the client's next request for what it is: the system holds the end of the last response, which has not arrived
    /// for `longest` at most.
    fn await_acknowledgement(&mut self, longest: Duration, is_window_shut: bool) {
        let time = self.waiting.min(longest);
        self.wait = if is_window_shut { Wait::ConnectionFlow } else { Wait::Acknowledgement };
        (self.waiting, self.busy) = (time, time);
        for (wait, spent) in &mut self.spent {
            if *wait == Wait::Client {
                *spent = spent.saturating_sub(time);
            }
        }
        match self.spent.iter_mut().find(|(wait, _)| *wait == self.wait) {
            Some((_, spent)) => *spent += time,
            None => self.spent.push((self.wait, time)),
        }
        self.spent.retain(|(_, spent)| !spent.is_zero());
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

    /// Returns an account with these waits, each from so many milliseconds after `start`.
    fn expected(start: Instant, waits: &[(Wait, u64)]) -> Account {
        let mut account = Account::begin(waits[0].0, start);
        for (wait, at) in &waits[1..] {
            account.enter(*wait, start + Duration::from_millis(*at));
        }
        account
    }

    #[test]
    fn time_without_room_is_the_clients_as_far_as_its_window_was_full() {
        let start = now();
        let account = LinkAccount::begin(now);
        account.on_open(true);
        let ms = Duration::from_millis;
        account.on_held(true, || Duration::ZERO);
        pass(5);
        account.on_block(ms(100));
        pass(30);
        account.moment(|| ms(110));
        pass(20);
        account.on_unblock(ms(130));
        pass(7);
        let (now, mark) = account.moment(|| ms(130));
        assert_eq!(now - start, ms(62));
        let waits = [
            (Wait::StreamFlow, 0),
            (Wait::ConnectionFlow, 5),
            (Wait::Acknowledgement, 35),
            (Wait::StreamFlow, 55),
        ];
        assert_eq!(mark, expected(start, &waits).at(now));
    }

    #[test]
    fn connection_waits_for_its_client_between_requests() {
        let start = now();
        let account = LinkAccount::begin(now);
        pass(3);
        account.on_open(true);
        pass(10);
        account.on_busy(now());
        pass(20);
        // Two responses wait, and one after the other is sent.
        for is_held in [true, true, false, false] {
            account.on_held(is_held, || Duration::ZERO);
            pass(5);
        }
        account.on_idle(now());
        pass(4);
        let (now, mark) = account.moment(|| Duration::ZERO);
        let waits = [
            (Wait::Handshake, 0),
            (Wait::Client, 3),
            (Wait::Application, 13),
            (Wait::StreamFlow, 33),
            (Wait::Application, 48),
            (Wait::Client, 53),
        ];
        assert_eq!(mark, expected(start, &waits).at(now));
    }

    /// Events that an upstream sends one by one, and a download over a path that takes it bit by bit.
    #[test]
    fn connection_whose_data_moves_is_busy_with_what_it_awaits_now() {
        let busy = |account: &LinkAccount| {
            let account = account.account.borrow();
            let (wait, since) = account.wait();
            (wait, (now() - since).as_millis(), account.busy(now()).as_millis())
        };
        for is_http2 in [true, false] {
            let account = LinkAccount::begin(now);
            account.on_open(is_http2);
            account.on_busy(now());
            for _ in 0..10 {
                pass(1000);
                if !is_http2 {
                    account.on_held(true, || Duration::ZERO);
                    account.on_held(false, || Duration::ZERO);
                }
                account.on_data();
            }
            pass(300);
            assert_eq!(busy(&account), (Wait::Application, 300, 300));
        }
        // A client's window that lets through a part in each round trip.
        let account = LinkAccount::begin(now);
        account.on_open(true);
        account.on_busy(now());
        for _ in 0..10 {
            account.on_held(true, || Duration::ZERO);
            pass(100);
            account.on_data();
            account.on_held(false, || Duration::ZERO);
            account.on_data();
        }
        assert_eq!(busy(&account), (Wait::Application, 0, 1000));
        let account = LinkAccount::begin(now);
        account.on_open(true);
        account.on_busy(now());
        for _ in 0..10 {
            account.on_block(Duration::ZERO);
            pass(500);
            account.on_unblock(Duration::ZERO);
            pass(1);
            account.on_data();
        }
        assert_eq!(busy(&account).2, 5010);
    }

    #[test]
    fn end_of_a_response_that_has_not_arrived_is_awaited() {
        let ms = Duration::from_millis;
        let state = LinkState {
            now: now(),
            mark: AccountMark::default(),
            wait: Wait::Client,
            waiting: ms(50),
            busy: Duration::ZERO,
            age: ms(60),
            spent: vec![(Wait::Application, ms(10)), (Wait::Client, ms(50))],
        };
        let mut slow = state.clone();
        slow.await_acknowledgement(ms(30), false);
        assert_eq!((slow.wait, slow.waiting, slow.busy), (Wait::Acknowledgement, ms(30), ms(30)));
        assert_eq!(slow.spent.iter().map(|(_, time)| *time).sum::<Duration>(), slow.age);
        let mut unread = state;
        unread.await_acknowledgement(ms(90), true);
        let spent = [(Wait::Application, ms(10)), (Wait::ConnectionFlow, ms(50))];
        assert_eq!((unread.wait, &unread.spent[..]), (Wait::ConnectionFlow, &spent[..]));
    }
}
