//! The contract between a worker and its driver.

use std::io;
use std::time::Duration;

use crate::counters::Counters;
use crate::egress::Egress;
use crate::event::Event;
use crate::meta::{Budget, RxMeta};
use crate::waker::Waker;

/// A driver of datagram I/O, owned by one worker thread. It serves one or more listeners.
///
/// Buffers are lent for the length of a call. One full or broken listener never stops the others.
pub trait Dataplane {
    /// Name of the backend.
    fn backend(&self) -> &'static str;

    /// Hands received datagrams to `sink` until there are no more or `budget` is spent, without waiting, and returns how
    /// many there were. What arrived since the last [`Dataplane::wait`] may show only after the next one.
    ///
    /// `sink` may change the bytes in place (decryption).
    ///
    /// # Errors
    /// Only where the driver is broken for good; a datagram that could not be received is counted instead.
    fn receive(
        &mut self,
        budget: Budget,
        sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize>;

    /// Sends what `emit` writes: it asks for room and commits one datagram after the other until it has no more or is
    /// refused. What blocked earlier goes first. Returns what `emit` returned.
    ///
    /// # Errors
    /// As with [`Dataplane::receive`].
    fn transmit<R>(
        &mut self,
        budget: Budget,
        emit: impl FnOnce(&mut dyn Egress) -> R,
    ) -> io::Result<R>;

    /// Sleeps until a datagram can be received, a blocked listener can send again, the waker was used, or `timeout`
    /// passed (`None`: no limit). Never returns early for the timeout's sake; precise to well under a millisecond. It may
    /// return for no visible reason (a signal), so a caller with a deadline looks at the clock.
    ///
    /// With a timeout of zero it only looks around, which is what a worker does that spins before it sleeps.
    ///
    /// # Errors
    /// As with [`Dataplane::receive`].
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Takes the oldest event; to be called until there is none, once a turn.
    fn take_event(&mut self) -> Option<Event>;

    /// Returns a handle with which another thread ends [`Dataplane::wait`], now or, if it is not waiting, next time.
    fn waker(&self) -> Waker;

    /// Returns what happened so far.
    fn counters(&self) -> Counters;
}
