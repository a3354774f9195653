//! Bytes of responses that wait in a connection of HTTP/2 until the system takes them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// Bytes that a stream may hold however much the others hold, so that streams whose windows are shut keep no other one waiting.
pub(super) const LEAST: usize = 4 * 1024;

/// Bytes that the streams of a connection hold together.
///
/// A stream may hold as much as is still free. One alone gets half of the limit, `n` of them a part of `n + 1` each, so there is
/// always room for a further one.
#[derive(Debug)]
pub(super) struct SendBuffer {
    limit: usize,
    held: AtomicUsize,
    waiting: Mutex<Waiting>,
}

/// Streams that wait for room. Each holds something, and waits no longer when it holds nothing.
#[derive(Debug, Default)]
struct Waiting {
    /// Number of the stream that began to wait last.
    last: u64,
    /// By number: the one that has waited longest is the first.
    wakers: BTreeMap<u64, Waker>,
}

/// Bytes that a stream holds. Blocks release them when HTTP/2 drops them, so the counts are atomic; all is on one thread.
#[derive(Debug)]
pub(super) struct StreamBuffer {
    connection: Arc<SendBuffer>,
    held: AtomicUsize,
    /// Number under which the stream waits, or has waited last; 0 if neither.
    number: AtomicU64,
}

/// Block of a response, which counts until it is dropped.
struct HeldBlock {
    bytes: Bytes,
    stream: Arc<StreamBuffer>,
}

impl Waiting {
    /// Has a stream wait behind the others, unless it waits already. Returns its number.
    fn add(&mut self, number: u64, waker: &Waker) -> u64 {
        if let Some(waits) = self.wakers.get_mut(&number) {
            waits.clone_from(waker);
            return number;
        }
        self.last += 1;
        self.wakers.insert(self.last, waker.clone());
        self.last
    }
}

impl SendBuffer {
    /// Returns an empty buffer for `limit` bytes.
    pub(super) fn new(limit: usize) -> Arc<SendBuffer> {
        Arc::new(SendBuffer { limit, held: AtomicUsize::new(0), waiting: Mutex::default() })
    }

    /// Returns the bytes that wait for the client.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed) as u64
    }

    /// Returns the part of a stream that begins.
    pub(super) fn stream(self: &Arc<Self>) -> Arc<StreamBuffer> {
        Arc::new(StreamBuffer {
            connection: Arc::clone(self),
            held: AtomicUsize::new(0),
            number: AtomicU64::new(0),
        })
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// Wakes the stream that has waited longest, if there is room. One that finds too little waits behind the others, and is woken at the
    /// latest when it holds nothing.
    fn wake_next(&self) {
        if self.free() < LEAST {
            return;
        }
        let first = self.waiting().wakers.pop_first();
        if let Some((_, waker)) = first {
            waker.wake();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // No code panics while it holds the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamBuffer {
    /// Returns the bytes that the stream may still take, [`LEAST`] or more, once it may.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let held = self.held.load(Ordering::Relaxed);
        let room = self.connection.free().saturating_sub(held);
        if held == 0 || room >= LEAST {
            self.stop_waiting();
            return Poll::Ready(room.max(LEAST));
        }
        let number = self.number.load(Ordering::Relaxed);
        let number = self.connection.waiting().add(number, cx.waker());
        self.number.store(number, Ordering::Relaxed);
        Poll::Pending
    }

    /// Counts a block until it is dropped.
    pub(super) fn hold(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if bytes.is_empty() {
            return bytes;
        }
        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
        let connection = &self.connection;
        connection.held.fetch_add(bytes.len(), Ordering::Relaxed);
        let stream = Arc::clone(self);
        Bytes::from_owner(HeldBlock { bytes, stream })
    }

    fn release(&self, count: usize) {
        let before = self.held.fetch_sub(count, Ordering::Relaxed);
        self.connection.held.fetch_sub(count, Ordering::Relaxed);
        if before == count
            && let Some(waker) = self.stop_waiting()
        {
            waker.wake();
        }
        self.connection.wake_next();
    }

    /// Takes the stream out of those that wait. Returns its waker, if it was among them.
    fn stop_waiting(&self) -> Option<Waker> {
        match self.number.swap(0, Ordering::Relaxed) {
            0 => None,
            number => self.connection.waiting().wakers.remove(&number),
        }
    }
}

impl AsRef<[u8]> for HeldBlock {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for HeldBlock {
    fn drop(&mut self) {
        self.stream.release(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    const LIMIT: usize = 64 * 1024;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Wakes {
        fn take(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    /// Has a stream take blocks until it must wait, as one does whose client takes nothing. Returns them.
    fn fill(stream: &Arc<StreamBuffer>, waker: &Waker) -> Vec<Bytes> {
        let mut blocks = Vec::new();
        while let Poll::Ready(room) = stream.poll_room(&mut Context::from_waker(waker)) {
            let block = vec![7; room.min(16 * 1024)];
            blocks.push(stream.hold(block.into()));
        }
        blocks
    }

    #[test]
    fn streams_whose_client_takes_nothing_hold_little_more_than_the_limit() {
        let connection = SendBuffer::new(LIMIT);
        let streams: Vec<_> = (0..128).map(|_| connection.stream()).collect();
        let held: Vec<_> = streams.iter().map(|one| fill(one, Waker::noop())).collect();
        assert!(held.iter().all(|blocks| !blocks.is_empty()));
        assert!(connection.held() <= (LIMIT + streams.len() * LEAST) as u64);
        drop(held);
        assert_eq!(connection.held(), 0);
    }

    #[test]
    fn stream_alone_takes_no_more_than_half_and_leaves_the_next_one_room() {
        let connection = SendBuffer::new(LIMIT);
        let (one, other) = (connection.stream(), connection.stream());
        let _held = fill(&one, Waker::noop());
        let half = (LIMIT / 2) as u64;
        assert!((half - LEAST as u64..=half).contains(&connection.held()), "{}", connection.held());
        let room = other.poll_room(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(room, Poll::Ready(room) if room >= LIMIT / 2));
    }

    #[test]
    fn stream_that_waits_is_woken_when_its_own_blocks_leave_or_those_of_others() {
        let connection = SendBuffer::new(LIMIT);
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        let (stuck, waits) = (connection.stream(), connection.stream());
        let stuck = fill(&stuck, Waker::noop());
        let held = fill(&waits, &waker);
        assert_eq!(wakes.take(), 0);
        drop(stuck);
        assert_eq!(wakes.take(), 1);
        let more = fill(&waits, &waker);
        assert!(!more.is_empty());
        drop((held, more));
        assert_eq!(wakes.take(), 1);
        assert_eq!(waits.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn stream_that_waits_again_and_again_while_the_buffer_is_full_waits_once() {
        let connection = SendBuffer::new(LIMIT);
        let stuck: Vec<_> = (0..32).map(|_| connection.stream()).collect();
        let held: Vec<_> = stuck.iter().map(|one| fill(one, Waker::noop())).collect();
        assert!(connection.free() < LEAST);
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        let stream = connection.stream();
        for _ in 0..1000 {
            drop(fill(&stream, &waker));
            assert_eq!(wakes.take(), 1);
        }
        let waiting = || connection.waiting().wakers.len();
        assert_eq!(waiting(), stuck.len());
        // One that ends while it waits.
        let block = fill(&stream, &waker);
        assert_eq!(waiting(), stuck.len() + 1);
        drop((stream, block));
        assert_eq!(waiting(), stuck.len());
        drop(held);
        assert_eq!((waiting(), connection.held()), (0, 0));
    }

    #[test]
    fn streams_that_wait_are_woken_in_turn() {
        let connection = SendBuffer::new(LIMIT);
        let full = connection.stream();
        let block = || full.hold(vec![7; LIMIT / 8].into());
        let mut full: Vec<_> = (0..4).map(|_| block()).collect();
        let streams: Vec<_> = (0..3).map(|_| connection.stream()).collect();
        let wakes: Vec<_> = (0..3).map(|_| Arc::<Wakes>::default()).collect();
        let wakers: Vec<_> = wakes.iter().map(|one| Arc::clone(one).into()).collect();
        let pairs = || streams.iter().zip(&wakers);
        let _held: Vec<_> = pairs().map(|(one, waker)| fill(one, waker)).collect();
        for expected in [[1, 0, 0], [0, 1, 0], [0, 0, 1]] {
            drop(full.pop());
            let woken: Vec<_> = wakes.iter().map(|one| one.take()).collect();
            assert_eq!(woken, expected);
            // What finds too little room waits behind the others.
            for (stream, waker) in
                pairs().zip(woken).filter_map(|(one, woken)| (woken > 0).then_some(one))
            {
                let _ = stream.poll_room(&mut Context::from_waker(waker));
            }
        }
    }

    #[test]
    fn block_is_what_it_was_and_counts_until_its_last_part_is_dropped() {
        let connection = SendBuffer::new(LIMIT);
        let stream = connection.stream();
        let mut block = stream.hold(Bytes::from_static(b"0123456789"));
        let part = block.split_to(4);
        assert_eq!((&part[..], &block[..]), (&b"0123"[..], &b"456789"[..]));
        drop(part);
        assert_eq!(connection.held(), 10);
        drop(block);
        assert_eq!(connection.held(), 0);
    }
}
