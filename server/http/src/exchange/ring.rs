//! Two bounded rings between a worker and its origin thread, and a waker for each side.
//!
//! Each side writes its messages, then wakes the other once. If a ring is full, a new exchange is refused, unless its client has
//! few others, and a body stays where it is. Messages that must not be lost (an end, a credit, a cancellation) wait beside the ring; there are at most a
//! few of them for each exchange, and the number of exchanges is bounded.

mod depth;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use bytes::Bytes;
use rtrb::{Consumer, Producer, RingBuffer};
use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::keys::ExchangeKey;
use sluicegate_base::observe::metrics::metrics;
use tokio::sync::Notify;

use super::Fields;
use super::accounts::{Accounts, Direction, Permit};
use super::message::{Envelope, Request, ToFront, ToHandler};

pub use self::depth::Depth;
use super::table::ExchangeTable;

/// Part of the ring's capacity up to which a client's exchanges may wait beside the ring.
const FEW: u64 = 64;

/// Wakers of both sides, and the reasons to wake them.
#[derive(Debug, Default)]
struct Wakers {
    origin: Notify,
    worker: OnceLock<Waker>,
    /// The worker found its ring full.
    worker_waits: AtomicBool,
    /// The origin found its ring full.
    origin_waits: AtomicBool,
    /// The worker is gone.
    closed: AtomicBool,
}

/// Open exchange. Messages of a closed exchange may stand in the front until its client takes them, so both sides have to be done
/// with it before the permit is dropped.
#[derive(Debug)]
struct Open {
    key: ExchangeKey,
    /// The origin is done with it.
    closed: bool,
    /// The front is done with it.
    forgotten: bool,
}

/// The worker's end of both rings.
#[derive(Debug)]
pub struct OriginRing {
    to: Producer<Envelope<ToHandler>>,
    from: Consumer<Envelope<ToFront>>,
    wakers: Arc<Wakers>,
    /// Messages that must not be lost and did not fit into the ring.
    overflow: VecDeque<Envelope<ToHandler>>,
    /// Exchanges that the origin has not closed or their front has not forgotten.
    exchanges: ExchangeTable<Open>,
    /// Number of exchanges that the origin has not closed.
    running: usize,
    /// Something was put into the ring since the origin was woken.
    news: bool,
    /// Exchanges whose memory was revoked, for their front to cancel.
    revoked: Vec<ExchangeKey>,
    /// Counters of this end.
    pub counters: OriginRingCounters,
}

metrics! {
    /// Counters of a worker's ends of the rings.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OriginRingCounters: Sum {
        /// Requests passed to an origin thread.
        pub opened: u64 = counter("sluicegate_origin_exchanges_opened_total"),
        /// Messages to an origin thread that waited because the ring was full.
        pub waited: u64 = counter("sluicegate_origin_messages_delayed_total"),
        /// Requests refused because the ring was full.
        pub refused_queue: u64 = counter(
            "sluicegate_origin_exchanges_refused_total", reason = "queue";
            "Requests refused before they were passed to an origin thread, by reason."
        ),
        /// Requests refused because the worker's memory for them was promised to others.
        pub refused_memory: u64 = also(reason = "memory"),
        /// Requests refused because that memory was used up and no client held more of it than theirs.
        pub refused_client: u64 = also(reason = "client"),
        /// Requests cancelled because the memory for requests was used up and their client held the most of it.
        pub revoked: u64 = counter("sluicegate_origin_exchanges_revoked_total"),
    }
}

/// The origin thread's end of both rings.
#[derive(Debug)]
pub struct WorkerRing {
    from: Consumer<Envelope<ToHandler>>,
    to: Producer<Envelope<ToFront>>,
    wakers: Arc<Wakers>,
}

/// Returns both ends, for `queue` messages each way; `accounts` bounds the exchanges.
pub fn rings(queue: usize, accounts: Arc<Accounts>) -> (OriginRing, WorkerRing) {
    let (to, from_worker) = RingBuffer::new(queue);
    let (to_worker, from) = RingBuffer::new(queue);
    let wakers = Arc::new(Wakers::default());
    let origin_ring = OriginRing {
        to,
        from,
        wakers: Arc::clone(&wakers),
        overflow: VecDeque::new(),
        exchanges: ExchangeTable::new(accounts),
        running: 0,
        news: false,
        revoked: Vec::new(),
        counters: OriginRingCounters::default(),
    };
    let worker_ring = WorkerRing { from: from_worker, to: to_worker, wakers };
    (origin_ring, worker_ring)
}

impl OriginRing {
    /// Sets the waker of this worker.
    pub fn attach(&self, waker: Waker) {
        let _ = self.wakers.worker.set(waker);
    }

    /// Returns the accounts that permits for exchanges come from.
    pub fn accounts(&self) -> &Arc<Accounts> {
        &self.exchanges.accounts
    }

    /// Returns the bytes that one exchange may have on its way, each way, by [`cost`](super::message::cost).
    pub fn share(&self) -> u64 {
        self.exchanges.accounts.share()
    }

    /// Returns the bytes that one exchange may have on its way at first, each way. They rise to the share once bodies move.
    pub fn first_credit(&self) -> u64 {
        self.exchanges.accounts.first_credit()
    }

    /// Promises memory to an exchange of the client at `address`. If there is none left, an exchange of the client that holds the
    /// most is cancelled for it; `None` if no client holds more than this one would.
    pub fn admit(&mut self, address: ValidatedAddress) -> Option<Permit> {
        self.exchanges.admit(address, |open| {
            self.revoked.push(open.key);
            self.counters.revoked += 1;
        })
    }

    /// Returns the key of an exchange whose memory was revoked, for its front to cancel it.
    pub fn take_revoked(&mut self) -> Option<ExchangeKey> {
        self.revoked.pop()
    }

    /// Opens an exchange and returns its number; `None` if the ring is full and the client has more than a few others. Without
    /// that exception, a client that keeps the ring full would keep all others out.
    pub fn open(&mut self, key: ExchangeKey, request: Box<Request>, permit: Permit) -> Option<u64> {
        let few = self.to.buffer().capacity() as u64 / FEW;
        if !self.has_room() && permit.exchanges() > few {
            self.counters.refused_queue += 1;
            return None;
        }
        let open = Open { key, closed: false, forgotten: false };
        let exchange = self.exchanges.insert(permit, open);
        let credit = self.first_credit();
        self.push(exchange, ToHandler::Open { request, credit });
        self.running += 1;
        self.counters.opened += 1;
        Some(exchange)
    }

    /// Returns whether the ring has room for a block of a body. If not, the origin wakes the worker once it has.
    pub fn has_room(&self) -> bool {
        if self.overflow.is_empty() && self.to.slots() > 0 {
            return true;
        }
        self.wakers.worker_waits.store(true, Ordering::SeqCst);
        // The origin may have made room before it could see the flag.
        self.overflow.is_empty() && self.to.slots() > 0
    }

    /// Sends a block of a request's body; only after [`OriginRing::has_room`].
    pub fn data(&mut self, exchange: u64, block: Bytes) {
        self.push(exchange, ToHandler::Data(block));
    }

    /// Sends the end of the request.
    pub fn end(&mut self, exchange: u64, trailers: Option<Fields>) {
        self.push(exchange, ToHandler::End(trailers));
    }

    /// Returns credit for blocks of the response that have left the front, and more at first.
    pub fn credit(&mut self, exchange: u64, amount: u64) {
        let more = self.exchanges.grow(exchange, Direction::Response);
        self.push(exchange, ToHandler::Credit(amount + more));
    }

    /// Returns further credit for an exchange whose response moves though nothing of it takes credit.
    pub fn on_range_moved(&mut self, exchange: u64) -> u64 {
        self.exchanges.grow(exchange, Direction::Response)
    }

    /// Returns a lent range, of which so many bytes were read.
    pub fn range_read(&mut self, exchange: u64, count: u64) {
        self.push(exchange, ToHandler::RangeRead(count));
    }

    /// Cancels an exchange.
    pub fn cancel(&mut self, exchange: u64) {
        self.push(exchange, ToHandler::Cancel);
    }

    /// Returns the memory of an exchange of which the front holds nothing more, once the origin has closed it, too. Every front
    /// calls it once for each exchange that it has opened.
    pub fn forget(&mut self, exchange: u64) {
        if let Some(open) = self.exchanges.get_mut(exchange) {
            open.forgotten = true;
            if open.closed {
                self.exchanges.remove(exchange);
            }
        }
    }

    fn push(&mut self, exchange: u64, message: ToHandler) {
        self.news = true;
        let envelope = Envelope { exchange, message };
        if !self.overflow.is_empty() {
            self.counters.waited += 1;
            self.overflow.push_back(envelope);
        } else if let Err(rtrb::PushError::Full(envelope)) = self.to.push(envelope) {
            self.counters.waited += 1;
            self.overflow.push_back(envelope);
        }
    }

    /// Sends the messages that waited beside the ring, and wakes the origin if there are new ones. Called once a turn.
    pub fn flush(&mut self) {
        while let Some(envelope) = self.overflow.pop_front() {
            if let Err(rtrb::PushError::Full(envelope)) = self.to.push(envelope) {
                self.overflow.push_front(envelope);
                self.wakers.worker_waits.store(true, Ordering::SeqCst);
                break;
            }
            self.news = true;
        }
        if std::mem::take(&mut self.news) {
            self.wakers.origin.notify_one();
        }
    }

    /// Returns the origin's next message with the key of its exchange.
    pub fn take(&mut self) -> Option<(ExchangeKey, ToFront)> {
        while let Ok(Envelope { exchange, message }) = self.from.pop() {
            let open = self.exchanges.get_mut(exchange);
            let Some(open) = open.filter(|open| !open.closed) else {
                continue;
            };
            let key = open.key;
            return Some(match message {
                ToFront::Closed => {
                    self.running -= 1;
                    open.closed = true;
                    if open.forgotten {
                        self.exchanges.remove(exchange);
                    }
                    (key, message)
                }
                ToFront::Credit(amount) => {
                    let more = self.exchanges.grow(exchange, Direction::Request);
                    (key, ToFront::Credit(amount + more))
                }
                message => (key, message),
            });
        }
        if self.wakers.origin_waits.swap(false, Ordering::SeqCst) {
            self.wakers.origin.notify_one();
        }
        None
    }

    /// Returns the memory promised to an exchange, bytes.
    pub fn promised(&self, exchange: u64) -> u64 {
        self.exchanges.promised(exchange)
    }

    /// Returns the number of exchanges that the origin has not closed.
    pub fn running(&self) -> usize {
        self.running
    }
}

impl WorkerRing {
    /// Returns the worker's next message.
    pub fn take(&mut self) -> Option<Envelope<ToHandler>> {
        self.from.pop().ok()
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The ring is full. The error returns the message, and the worker wakes this end once there is room.
    pub fn give(&mut self, envelope: Envelope<ToFront>) -> Result<(), Envelope<ToFront>> {
        let Err(rtrb::PushError::Full(envelope)) = self.to.push(envelope) else {
            return Ok(());
        };
        self.wakers.origin_waits.store(true, Ordering::SeqCst);
        match self.to.push(envelope) {
            Ok(()) => Ok(()),
            Err(rtrb::PushError::Full(envelope)) => Err(envelope),
        }
    }

    /// Wakes the worker if there are new messages or it waits for room.
    pub fn wake(&self, news: bool) {
        let waits = self.wakers.worker_waits.swap(false, Ordering::SeqCst);
        if (news || waits)
            && let Some(waker) = self.wakers.worker.get()
        {
            waker.wake_by_ref();
        }
    }

    /// Waits until the worker wakes this end.
    pub async fn woken(&self) {
        self.wakers.origin.notified().await;
    }

    /// Returns whether the worker is gone.
    pub fn is_abandoned(&self) -> bool {
        self.wakers.closed.load(Ordering::SeqCst)
    }
}

impl Drop for OriginRing {
    fn drop(&mut self) {
        self.wakers.closed.store(true, Ordering::SeqCst);
        self.wakers.origin.notify_one();
    }
}

#[cfg(test)]
mod tests;
