//! The slow path of a port: ARP, neighbor discovery and ICMP, with one owner.
//!
//! The stack lives behind a lock that nobody waits for, and whichever worker has a frame for it runs it: such frames are
//! rare, and the replies leave by that worker's queue at once. A thread or a worker of its own would have to be woken for
//! each, and would need rings and buffers in both directions. A worker that finds the lock taken keeps a few frames of
//! neighbours until its next look, and drops others; whoever sent them asks again. Workers learn what the stack resolved from an immutable table, when its number has changed.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use sluicegate_frames::{MacAddr, NeighborTable, PortConfig, Resolution, Stack, StackEvent};

/// Events kept for workers that have not looked yet.
const EVENTS: usize = 64;

/// The stack of a port, shared by its workers.
pub(super) struct SlowPath {
    state: Mutex<State>,
    /// Number of the latest change of table or events.
    changes: AtomicU64,
    /// Time of the stack's next timer, milliseconds.
    due: AtomicU64,
    /// The link has come up, of which the stack does not know yet.
    link_up: AtomicBool,
}

struct State {
    stack: Stack,
    resolved: NeighborTable,
    /// Events with the numbers of their changes, oldest first.
    events: VecDeque<(u64, StackEvent)>,
}

impl fmt::Debug for SlowPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlowPath({:?} changes)", self.changes)
    }
}

impl SlowPath {
    pub(super) fn new(config: &Arc<PortConfig>) -> Self {
        Self {
            state: Mutex::new(State {
                stack: Stack::new(Arc::clone(config)),
                resolved: NeighborTable::default(),
                events: VecDeque::with_capacity(EVENTS),
            }),
            changes: AtomicU64::new(0),
            due: AtomicU64::new(0),
            link_up: AtomicBool::new(false),
        }
    }

    /// Passes a received frame to the stack; `send` takes the reply. Returns false if another worker has the stack.
    pub(super) fn input(&self, frame: &[u8], now_ms: u64, send: &mut dyn FnMut(&[u8])) -> bool {
        let Some(mut state) = self.try_lock() else {
            return false;
        };
        state.stack.input(frame, now_ms, send);
        self.after(&mut state, now_ms, send);
        true
    }

    /// Returns the station that frames to `destination` go to, or asks for it.
    pub(super) fn resolve(
        &self,
        destination: IpAddr,
        now_ms: u64,
        send: &mut dyn FnMut(&[u8]),
    ) -> Option<MacAddr> {
        let mut state = self.try_lock()?;
        let resolution = state.stack.resolve(destination, now_ms);
        self.after(&mut state, now_ms, send);
        match resolution {
            Resolution::Known(mac) => Some(mac),
            Resolution::Asked | Resolution::Silent | Resolution::NoRoute => None,
        }
    }

    /// Runs the stack's timers if they are due.
    pub(super) fn on_time(&self, now_ms: u64, send: &mut dyn FnMut(&[u8])) {
        if self.due.load(Ordering::Relaxed) > now_ms && !self.link_up.load(Ordering::Relaxed) {
            return;
        }
        if let Some(mut state) = self.try_lock() {
            self.after(&mut state, now_ms, send);
        }
    }

    /// Has the next call that gets hold of the stack announce the port's addresses again: the link has come up.
    pub(super) fn on_link_up(&self) {
        self.link_up.store(true, Ordering::Relaxed);
    }

    /// Passes on what changed since the worker last looked; `seen` is its number of the latest change.
    pub(super) fn news(
        &self,
        seen: &mut u64,
        set_resolved: impl FnOnce(NeighborTable),
        mut event: impl FnMut(StackEvent),
    ) {
        let latest = self.changes.load(Ordering::Acquire);
        if latest == *seen {
            return;
        }
        let Some(state) = self.try_lock() else {
            return;
        };
        set_resolved(state.resolved.clone());
        for (number, one) in &state.events {
            if number > seen {
                event(*one);
            }
        }
        *seen = self.changes.load(Ordering::Acquire);
    }

    /// Sends what is due, and publishes what changed.
    fn after(&self, state: &mut State, now_ms: u64, send: &mut dyn FnMut(&[u8])) {
        if self.link_up.swap(false, Ordering::Relaxed) {
            state.stack.on_link_up(now_ms);
        }
        state.stack.poll(now_ms, send);
        let due = state.stack.next_timer().unwrap_or(u64::MAX);
        self.due.store(due, Ordering::Relaxed);
        // Only the owner of the lock changes the number.
        let next = self.changes.load(Ordering::Relaxed) + 1;
        let mut changed = false;
        if let Some(table) = state.stack.take_resolved() {
            state.resolved = table;
            changed = true;
        }
        while let Some(event) = state.stack.take_event() {
            if state.events.len() == EVENTS {
                state.events.pop_front();
            }
            state.events.push_back((next, event));
            changed = true;
        }
        if changed {
            self.changes.store(next, Ordering::Release);
        }
    }

    /// Runs `act` while somebody has the stack.
    #[cfg(test)]
    pub(super) fn while_in_use(&self, act: impl FnOnce()) {
        let _state = self.try_lock();
        act();
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_frames::MacAddr;

    use super::*;

    #[test]
    fn a_link_that_comes_up_while_the_stack_is_in_use_is_announced_afterwards() {
        let config = PortConfig {
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            vlan: None,
            mtu: 1500,
            addresses: vec![(IpAddr::from([192, 0, 2, 1]), 24)],
            gateways: Vec::new(),
            neighbors: Vec::new(),
            scope_id: 1,
        };
        let slow = SlowPath::new(&Arc::new(config));
        let announced = |now| {
            let mut count = 0;
            slow.on_time(now, &mut |_| count += 1);
            count
        };
        assert_eq!((announced(0), announced(1)), (1, 0));
        slow.while_in_use(|| {
            slow.on_link_up();
            assert_eq!(announced(2), 0);
        });
        assert_eq!((announced(3), announced(4)), (1, 0));
    }
}
