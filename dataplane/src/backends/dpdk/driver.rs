//! The driver of a worker: receives, sends, and looks at its queue in ever longer intervals while nothing arrives.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_dpdk::Queue;

use super::core::Core;
use super::shared::Shared;
use super::tx::Emission;
use crate::contract::Dataplane;
use crate::counters::Counters;
use crate::egress::Egress;
use crate::event::Event;
use crate::meta::{Budget, RxMeta};
use crate::sys;
use crate::waker::Waker;

/// Name in a configuration.
pub(crate) const NAME: &str = "dpdk";

/// Time after the last frame in which a worker looks without a pause.
const SPIN: Duration = Duration::from_micros(20);
/// Shortest pause between two looks, and longest.
const SHORTEST: Duration = Duration::from_micros(32);
const LONGEST: Duration = Duration::from_millis(1);
/// Time after the last frame in which pauses are shorter, and the longest of these.
const RECENT: Duration = Duration::from_millis(100);
const LONGEST_RECENT: Duration = Duration::from_micros(250);

/// A driver that polls a queue of a port.
pub struct Dpdk {
    core: Core,
    waker: Waker,
}

/// Reads the clock that waits and ages are measured by.
#[expect(
    clippy::disallowed_methods,
    reason = "a driver that polls has no kernel to time its waits"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

impl Dpdk {
    pub(super) fn new(queue: Queue, shared: Arc<Shared>, index: usize) -> io::Result<Self> {
        Ok(Self { waker: Waker::open(true)?, core: Core::new(queue, shared, index, now()) })
    }

    /// Returns the pause before the next look, after a while without frames.
    fn pause(&self, now: Instant) -> Duration {
        let idle = now.saturating_duration_since(self.core.active);
        if idle < SPIN {
            return Duration::ZERO;
        }
        let longest = if idle < RECENT { LONGEST_RECENT } else { LONGEST };
        (idle / 8).clamp(SHORTEST, longest)
    }

    /// Sleeps for `pause`, or until the waker is used.
    fn sleep(&self, pause: Duration) -> io::Result<()> {
        match self.waker.eventfd() {
            Some(eventfd) if !pause.is_zero() => {
                if self.waker.begin_sleep() && sys::await_readable(eventfd, pause)? {
                    self.waker.drain();
                }
            }
            _ => std::hint::spin_loop(),
        }
        Ok(())
    }
}

impl Dataplane for Dpdk {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn receive(
        &mut self,
        budget: Budget,
        sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        let now = now();
        self.core.housekeep(now);
        Ok(self.core.receive(budget, now, sink))
    }

    fn transmit<R>(
        &mut self,
        budget: Budget,
        emit: impl FnOnce(&mut dyn Egress) -> R,
    ) -> io::Result<R> {
        let now = now();
        self.core.flush();
        let sent = self.core.counters.tx_datagrams;
        let result = emit(&mut Emission::new(&mut self.core, budget, now));
        self.core.flush();
        if self.core.counters.tx_datagrams != sent {
            self.core.active = now;
        }
        Ok(result)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let start = now();
        let mut at = start;
        loop {
            self.core.housekeep(at);
            self.core.flush();
            // Looks at the queue in any case.
            if self.core.is_ready() | self.waker.take() {
                return Ok(());
            }
            let left = match timeout {
                Some(timeout) => timeout.saturating_sub(at.saturating_duration_since(start)),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return Ok(());
            }
            self.sleep(self.pause(at).min(left))?;
            at = now();
        }
    }

    fn take_event(&mut self) -> Option<Event> {
        self.core.events.take()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn counters(&self) -> Counters {
        Counters { frames: Some(self.core.frames), ..self.core.counters }
    }
}
