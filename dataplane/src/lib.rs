//! How datagrams get in and out: one contract, several backends.
//!
//! At boot one thread binds every listener for all workers ([`bind_group`]); each worker then opens a driver for its
//! share ([`open`]) on its own thread and turns: receive, work, transmit, wait. The crate reads no clock and allocates
//! nothing per datagram. The README says how to add a backend.

mod addr;
mod any;
mod binding;
mod control;
mod egress;
mod error;
pub mod fault;
pub mod memory;
mod meta;
mod mio;
mod options;
mod steering;
mod sys;
mod uring;
mod waker;

pub use any::{Backend, Driver, Opened, UnknownBackend, open};
pub use binding::{Binding, bind_group};
pub use error::{BindError, OpenError};
pub use meta::{Caps, Counters, Ecn, ListenerId, RxMeta, Transmitted, TxMeta};
pub use mio::Mio;
pub use options::{DriverOptions, SocketOptions};
pub use uring::Uring;
pub use waker::Waker;

use std::io;
use std::time::Duration;

/// A driver of datagram I/O, owned by one worker thread. Several listeners are bound into it.
///
/// Buffers are lent for the length of a call, never given away.
pub trait Dataplane {
    /// What this driver can do here.
    fn caps(&self) -> Caps;

    /// Hands up to `budget` received buffers to `sink`, without waiting, and returns how many there were. What arrived
    /// since the last [`Dataplane::wait`] may show only after the next one.
    ///
    /// A buffer holds one datagram, or several of one peer put together by GRO: split it every [`RxMeta::stride`] bytes.
    /// The contents may be changed in place (decryption).
    ///
    /// # Errors
    /// Only where the driver is broken for good; a datagram that could not be received is counted instead.
    fn receive(&mut self, budget: usize, sink: impl FnMut(&RxMeta, &mut [u8]))
    -> io::Result<usize>;

    /// Lends empty buffers to `fill` until it answers `None` or up to `budget` of them were filled.
    ///
    /// `fill` writes one datagram, or several of one size (the last may be shorter) for one peer: see [`TxMeta`].
    ///
    /// # Errors
    /// As with [`Dataplane::receive`].
    fn transmit(
        &mut self,
        budget: usize,
        fill: impl FnMut(&mut [u8]) -> Option<TxMeta>,
    ) -> io::Result<Transmitted>;

    /// Sleeps until a datagram can be received, a blocked transmission can go on, the waker was used, or `timeout`
    /// passed (`None`: no limit). Never returns early for the timeout's sake; precise to well under a millisecond. It may
    /// return for no visible reason (a signal), so who has a deadline looks at the clock. With a timeout of zero it only
    /// looks around.
    ///
    /// # Errors
    /// As with [`Dataplane::receive`].
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// A handle with which another thread ends [`Dataplane::wait`], now or, if nobody waits, next time.
    fn waker(&self) -> Waker;

    /// What happened so far.
    fn counters(&self) -> Counters;
}
