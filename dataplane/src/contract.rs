//! The contract between a worker and its driver.

use std::io;
use std::time::Duration;

use crate::counters::Counters;
use crate::egress::Egress;
use crate::event::Event;
use crate::features::Features;
use crate::initials::InitialFilter;
use crate::meta::{Budget, RxMeta};
use crate::waker::Waker;

/// A driver of datagram I/O, owned by one worker thread. It serves one or more listeners.
///
/// Buffers are lent for the length of a call. One full or broken listener never stops the others.
pub trait Dataplane {
    /// Returns the name of the backend.
    fn backend(&self) -> &'static str;

    /// Returns the offloads and modes that it uses.
    fn features(&self) -> Features {
        Features::default()
    }

    /// Passes received datagrams to `sink` until there are no more or `budget` is spent, without waiting, and returns
    /// how many there were. Datagrams that arrived since the last [`Dataplane::wait`] may appear only after the next
    /// one.
    ///
    /// `sink` may change the bytes in place (decryption).
    ///
    /// # Errors
    /// The driver is broken for good. A datagram that could not be received is no error: it is counted.
    fn receive(
        &mut self,
        budget: Budget,
        sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize>;

    /// Sends the datagrams that `emit` writes: `emit` asks for room and commits one datagram after the other, until it
    /// has no more or there is no room. Batches that were blocked earlier leave first. Returns what `emit` returned.
    ///
    /// A backend may keep datagrams until the next [`Dataplane::wait`], or until it is dropped, to send them by the same
    /// system call. So a worker waits after it transmitted, with a timeout of zero if it must not sleep.
    ///
    /// # Errors
    /// The driver is broken for good.
    fn transmit<R>(
        &mut self,
        budget: Budget,
        emit: impl FnOnce(&mut dyn Egress) -> R,
    ) -> io::Result<R>;

    /// Sleeps until a datagram can be received, a blocked listener can send again, the waker was used, or `timeout`
    /// passed (`None`: no limit). The timeout is precise to well under a millisecond. A signal may end the sleep early,
    /// so a caller with a deadline reads the clock.
    ///
    /// With a timeout of zero it checks once and does not sleep. A worker that spins calls it with zero.
    ///
    /// # Errors
    /// The driver is broken for good.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Returns whether the last wait found something to do: datagrams, room to send, a wake-up, an event. A worker that
    /// spins turns only then. A backend that cannot tell returns true.
    fn has_work(&self) -> bool {
        true
    }

    /// Has Initial packets dropped before they are received, at random, all but the shares that `filter` names; with `None` none
    /// are dropped, as at the start. All other packets pass. [`Counters::rx_overflows`] counts the dropped ones.
    ///
    /// A worker calls it when reading them leaves no time for anything else, up to some ten times a second.
    ///
    /// # Errors
    /// `Unsupported`: the backend drops nothing in advance, as here, because its receive is cheap. Any other: the host refuses it,
    /// and all packets pass.
    fn filter_initials(&mut self, filter: Option<&InitialFilter>) -> io::Result<()> {
        let _ = filter;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes the oldest event. A worker calls it once a turn, until there is none.
    fn take_event(&mut self) -> Option<Event>;

    /// Returns a handle with which another thread ends the current or the next [`Dataplane::wait`].
    fn waker(&self) -> Waker;

    /// Returns the totals since the driver was opened.
    fn counters(&self) -> Counters;
}
