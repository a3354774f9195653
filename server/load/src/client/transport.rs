//! The interface of a connection's protocol.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Instant;

use super::exchanges::Exchanges;
use crate::context::Context;
use crate::end::End;
use crate::poller::Watch;
use crate::request::OpenRequest;
use crate::tally::Tally;

/// Ends of a connection to open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectOptions<'a> {
    /// Index of the server's address in the plan.
    pub(crate) address: usize,
    /// Own address; the system chooses it if there is none.
    pub(crate) local: Option<IpAddr>,
    /// File of the trace.
    pub(crate) trace: Option<&'a Path>,
}

/// What carries the requests of a connection: packets of QUIC, or a stream of TCP. It reports responses to the exchanges.
pub(super) trait Transport {
    /// Returns the socket, for the selector.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Returns the events of the socket to watch for.
    fn watch(&self) -> Watch;

    /// Receives what a system call finds, after the socket had an event.
    ///
    /// # Errors
    /// The server's port is closed.
    fn receive(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) -> Result<(), End>;

    /// Processes what has arrived, and goes on with the bodies of requests.
    fn process(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>);

    /// Returns whether the server allows a request beside so many open ones.
    fn has_room(&self, open: usize) -> bool;

    /// Begins to send a request. Returns its stream, whose number is above that of every one before; `None` if there is no room.
    fn send(&mut self, request: &OpenRequest, cx: &Context<'_>) -> Option<u64>;

    /// Sends what may leave now.
    ///
    /// # Errors
    /// The server's port is closed or out of reach.
    fn flush(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) -> Result<(), End>;

    /// Returns whether there is something to process at once.
    fn is_awake(&self) -> bool;

    /// Returns the connection's end, if one of the two sides has closed it.
    fn end(&mut self, exchanges: &Exchanges) -> Option<End>;

    /// Returns the time at which [`Transport::on_timer`] has to be called.
    fn deadline(&self) -> Option<Instant>;

    /// Runs what is due.
    fn on_timer(&mut self, now: Instant);

    /// Closes the connection without an error. What that takes to send leaves with the next flush.
    fn close(&mut self);

    /// Returns why there is no handshake at the end of a run.
    fn missing_handshake(&self, exchanges: &Exchanges) -> String;

    /// Adds the figures of an established connection to the tally.
    fn count(&self, tally: &mut Tally);
}
