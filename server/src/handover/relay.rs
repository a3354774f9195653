//! Carries datagrams between the workers of this process and the neighbouring one, over a stream.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use sluicegate_dataplane::{ListenerId, RxMeta, Steering};
use tokio::net::UnixStream;
use tokio::sync::Notify;

use super::frame::{ForwardedDatagram, NoForwardedDatagram};
use super::losses::Losses;
use super::transient::{PAUSE, is_transient};
use crate::worker::{MailboxSender, Misrouted};

/// Bytes that wait for room in the stream at most. What comes then waits in the rings of the workers, and is dropped where they are full.
const MOST_WAITING: usize = 4 << 20;
/// Bytes that one read takes.
const READ: usize = 256 << 10;
/// Datagrams of each worker in one round.
const ROUND: usize = 256;

/// A worker's end.
pub(crate) struct Lane {
    /// Index of its group.
    pub(crate) group: u8,
    /// Index of the worker.
    pub(crate) worker: u8,
    /// Ring to and from it.
    pub(crate) ring: Misrouted,
    /// Its mailbox, which wakes it.
    pub(crate) mailbox: MailboxSender,
}

/// Numbers of the listening addresses, by which frames name them.
#[derive(Clone, Debug)]
pub(crate) struct AddressLabels {
    /// How the kernel steers to the sockets of each.
    steering: Steering,
    addresses: HashMap<u16, LabelledAddress>,
    labels: HashMap<ListenerId, u16>,
}

/// A listening address.
#[derive(Clone, Debug)]
struct LabelledAddress {
    listener: ListenerId,
    /// Index of its group.
    group: u8,
    /// Number of its sockets. All copies share it.
    sockets: Arc<AtomicU32>,
}

impl AddressLabels {
    /// Begins without an address.
    pub(crate) fn new(steering: Steering) -> AddressLabels {
        AddressLabels { steering, addresses: HashMap::new(), labels: HashMap::new() }
    }

    /// Adds the number of a listener, whose group has this index.
    pub(crate) fn add(&mut self, label: u16, listener: ListenerId, group: u8) {
        let sockets = Arc::default();
        self.addresses.insert(label, LabelledAddress { listener, group, sockets });
        self.labels.insert(listener, label);
    }

    /// Notes that a listener has so many sockets more.
    pub(crate) fn add_sockets(&self, listener: ListenerId, more: u32) {
        let address = self.labels.get(&listener).and_then(|label| self.addresses.get(label));
        if let Some(address) = address {
            address.sockets.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Returns the number of a listener's sockets.
    pub(crate) fn sockets(&self, listener: ListenerId) -> u32 {
        let address = self.labels.get(&listener).and_then(|label| self.addresses.get(label));
        address.map_or(0, |address| address.sockets.load(Ordering::Relaxed))
    }

    /// Returns the listener of a number.
    pub(crate) fn listener(&self, label: u16) -> Option<ListenerId> {
        self.addresses.get(&label).map(|address| address.listener)
    }

    /// Returns the listener of a datagram, the index of its group, and that of the worker who reads the socket to which the kernel would
    /// lead the datagram once this process reads, where the group has so many: so no connection that begins now is another worker's then.
    fn place(
        &self,
        frame: &ForwardedDatagram<'_>,
        workers: impl FnOnce(u8) -> usize,
    ) -> Option<(ListenerId, u8, usize)> {
        let LabelledAddress { listener, group, sockets } = self.addresses.get(&frame.label)?;
        let sockets = sockets.load(Ordering::Relaxed);
        let socket = self.steering.socket(sockets, frame.datagram);
        let socket = socket.and_then(|socket| usize::try_from(socket).ok());
        let socket = socket.unwrap_or(usize::from(frame.worker));
        Some((*listener, *group, socket.checked_rem(workers(*group))?))
    }
}

/// The thread's part of the way to another process.
pub(crate) struct Relay {
    lanes: Vec<Lane>,
    labels: AddressLabels,
    /// Workers wake it.
    notify: Arc<Notify>,
    /// Datagrams that do not arrive.
    losses: Arc<Losses>,
    /// Those of them that found no room or no worker.
    dropped: u64,
    /// The workers take no more datagrams from here, and send none.
    is_forgotten: bool,
    /// Frames. It begins with a whole one.
    out: Vec<u8>,
    /// Bytes of `out` that were written.
    written: usize,
    /// The last attempt has failed for want of memory.
    pauses: bool,
    read: Vec<u8>,
    /// Bytes of `read` that were read and not delivered.
    unread: usize,
    /// Indexes of the lanes of each group, by worker.
    by_group: HashMap<u8, Vec<usize>>,
    /// Called before the workers get the first datagrams.
    before_first: Option<Box<dyn FnOnce() + Send>>,
}

impl Relay {
    /// Makes one.
    pub(crate) fn new(
        lanes: Vec<Lane>,
        labels: AddressLabels,
        notify: Arc<Notify>,
        losses: Arc<Losses>,
    ) -> Relay {
        let mut by_group = HashMap::<u8, Vec<usize>>::new();
        for (index, lane) in lanes.iter().enumerate() {
            by_group.entry(lane.group).or_default().push(index);
        }
        Relay {
            lanes,
            labels,
            notify,
            losses,
            dropped: 0,
            is_forgotten: false,
            out: Vec::new(),
            written: 0,
            pauses: false,
            read: Vec::new(),
            unread: 0,
            by_group,
            before_first: None,
        }
    }

    /// Has `call` called once, before the workers get the first datagrams of the other process.
    pub(crate) fn before_first(mut self, call: impl FnOnce() + Send + 'static) -> Relay {
        self.before_first = Some(Box::new(call));
        self
    }

    /// Starts a thread that carries datagrams until the other process closes the stream, and then calls `ended`, or until the workers have
    /// dropped their ends.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(
        self,
        stream: StdStream,
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let running = self.losses.run();
        std::thread::Builder::new().name("handover".into()).spawn(move || {
            runtime.block_on(self.run(stream, ended));
            drop(running);
        })?;
        Ok(())
    }

    /// Carries datagrams, and counts those that do not arrive.
    async fn run(mut self, stream: StdStream, ended: impl FnOnce()) {
        let carried = match UnixStream::from_std(stream) {
            Ok(stream) => {
                let carried = self.carry(&stream).await;
                if self.is_forgotten && self.receive_the_rest(&stream).is_ok() {
                    stream.into_std().map(|stream| self.losses.keep(stream)).and(carried)
                } else {
                    carried
                }
            }
            Err(error) => Err(error),
        };
        if let Err(error) = carried {
            tracing::debug!(%error, "the stream of datagrams to another process has ended");
        }
        let dropped = self.dropped;
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "datagrams of another process of this server found no room or no worker"
            );
        }
        ended();
        while !self.lanes.iter().all(|lane| lane.ring.is_abandoned()) {
            self.notify.notified().await;
        }
        self.count_the_rest();
    }

    /// Carries datagrams until the other process has closed the stream, or the workers have dropped their ends.
    async fn carry(&mut self, stream: &UnixStream) -> io::Result<()> {
        loop {
            // Asked first: what they have sent before is taken below.
            self.is_forgotten = self.lanes.iter().all(|lane| lane.ring.is_abandoned());
            let more = self.take_from_workers();
            if self.written < self.out.len() {
                if self.is_forgotten {
                    // There is no later turn, in which the runtime would know that there is room.
                    self.write(|bytes| Ok(rustix::io::write(stream, bytes)?))?;
                } else {
                    self.write(|bytes| stream.try_write(bytes))?;
                }
            }
            let (is_blocked, notify) = (self.written < self.out.len(), Arc::clone(&self.notify));
            if self.is_forgotten {
                return Ok(());
            }
            if std::mem::take(&mut self.pauses) {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            tokio::select! {
                ready = stream.readable() => {
                    ready?;
                    if !self.receive(|room| stream.try_read(room))? {
                        return Ok(());
                    }
                }
                ready = stream.writable(), if is_blocked => ready?,
                () = notify.notified(), if !more => {}
                () = tokio::task::yield_now(), if more && !is_blocked => {}
            }
        }
    }

    /// Takes what the other process has sent, for nobody: so it is counted, and what that one sends from now on is not sent.
    ///
    /// # Errors
    /// The stream is broken.
    fn receive_the_rest(&mut self, stream: &UnixStream) -> io::Result<()> {
        shutdown(stream, Shutdown::Read)?;
        // It is not written to any more, and holds a few reads.
        while self.receive(|room| Ok(rustix::io::read(stream, room)?))? {}
        Ok(())
    }

    /// Counts what has not left, once the workers have dropped their ends.
    fn count_the_rest(&mut self) {
        self.drop_unsent();
        for Lane { ring, .. } in &mut self.lanes {
            let mut late = 0;
            ring.receive(usize::MAX, |_, _| late += 1);
            self.losses.on_late(late + ring.untaken());
        }
    }

    /// Drops the frames that have not left as a whole, and counts them.
    fn drop_unsent(&mut self) {
        let sent = self.sent_frames();
        let mut frames = self.out.get(sent..).unwrap_or_default();
        while let Ok(Some((_, length))) = ForwardedDatagram::read(frames) {
            self.losses.on_late(1);
            frames = frames.get(length..).unwrap_or_default();
        }
        self.out.clear();
        self.written = 0;
    }

    /// Returns the length of the frames that have left as a whole.
    fn sent_frames(&self) -> usize {
        let mut sent = 0;
        while let Some(Ok(Some((_, length)))) = self.out.get(sent..).map(ForwardedDatagram::read)
            && sent + length <= self.written
        {
            sent += length;
        }
        sent
    }

    /// Appends what workers have for the other process. Returns whether there is more.
    fn take_from_workers(&mut self) -> bool {
        let mut more = false;
        let Relay { lanes, labels, out, dropped, losses, .. } = self;
        for Lane { worker, ring, .. } in lanes {
            if out.len() >= MOST_WAITING {
                return true;
            }
            more |= ring.receive(ROUND, |meta, datagram| {
                let Some(label) = labels.labels.get(&meta.listener) else {
                    *dropped += 1;
                    losses.on_drop();
                    return;
                };
                let RxMeta { peer, local, ecn, .. } = *meta;
                let (worker, label) = (*worker, *label);
                ForwardedDatagram { worker, label, peer, local, ecn, datagram }.write(out);
            });
        }
        more
    }

    fn write(&mut self, write: impl Fn(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            match write(rest) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => match Failure::of(&error) {
                    Failure::Passes => {
                        self.pauses = true;
                        break;
                    }
                    // What it has sent before may still be read.
                    Failure::Closed => self.drop_unsent(),
                    Failure::Broken => return Err(error),
                },
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        } else if self.written > MOST_WAITING / 2 {
            let sent = self.sent_frames();
            self.out.drain(..sent);
            self.written -= sent;
        }
        Ok(())
    }

    /// Passes what has come to the workers. Returns whether the stream is still open.
    fn receive(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<bool> {
        if self.read.len() < self.unread + READ {
            self.read.resize(self.unread + READ, 0);
        }
        let room = self.read.get_mut(self.unread..).unwrap_or_default();
        match read(room) {
            Ok(0) => return Ok(false),
            Ok(received) => self.unread += received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => match Failure::of(&error) {
                Failure::Passes => {
                    self.pauses = true;
                    return Ok(true);
                }
                Failure::Closed => return Ok(false),
                Failure::Broken => return Err(error),
            },
        }
        if let Some(call) = self.before_first.take() {
            call();
        }
        let mut at = 0;
        while let Some(bytes) = self.read.get(at..self.unread) {
            match ForwardedDatagram::read(bytes) {
                Ok(Some((frame, length))) => {
                    at += length;
                    let workers = |group| self.by_group.get(&group).map_or(0, Vec::len);
                    let place = self.labels.place(&frame, workers);
                    let lane = place.and_then(|(listener, group, worker)| {
                        let lane = *self.by_group.get(&group)?.get(worker)?;
                        Some((listener, self.lanes.get_mut(lane)?))
                    });
                    if self.is_forgotten {
                        self.losses.on_late(1);
                    } else if !lane.is_some_and(|(listener, lane)| lane.deliver(listener, &frame)) {
                        self.dropped += 1;
                        self.losses.on_drop();
                    }
                }
                Ok(None) => break,
                Err(NoForwardedDatagram) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        self.read.copy_within(at..self.unread, 0);
        self.unread -= at;
        for Lane { ring, mailbox, .. } in &mut self.lanes {
            ring.flush(|_| mailbox.wake());
        }
        Ok(true)
    }
}

/// Meaning of an error of the stream for the other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Nothing: the next attempt may succeed.
    Passes,
    /// It has ended.
    Closed,
    /// The stream cannot be used.
    Broken,
}

impl Failure {
    fn of(error: &io::Error) -> Failure {
        match Errno::from_io_error(error) {
            Some(errno) if is_transient(errno) => Failure::Passes,
            Some(Errno::PIPE | Errno::CONNRESET) => Failure::Closed,
            _ => Failure::Broken,
        }
    }
}

impl Lane {
    /// Passes a datagram to the worker, who knows whose it is. Returns false where there is no room.
    fn deliver(&mut self, listener: ListenerId, frame: &ForwardedDatagram<'_>) -> bool {
        let ForwardedDatagram { peer, local, ecn, datagram, .. } = *frame;
        // At the other end of the pair.
        self.ring.send(0, &RxMeta { listener, peer, local, ecn }, datagram)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use proptest::prelude::*;
    use sluicegate_dataplane::Ecn;

    use super::*;
    use crate::worker::{mailbox, misrouted};

    proptest! {
        /// The kernel leads it to this worker's socket once this process reads: so what a client begins now is not another worker's then,
        /// whichever worker of the other process has received it.
        #[test]
        fn a_datagram_goes_to_the_worker_who_is_to_read_its_socket(
            datagram in proptest::collection::vec(any::<u8>(), 0..40),
            from in any::<u8>(),
            before in 1_u32..6,
            added in 0_u32..6,
            workers in 1_usize..8,
        ) {
            let steering = Steering::ConnectionId { worker_at: 0, shortest: 8 };
            let mut labels = AddressLabels::new(steering);
            let listener = ListenerId(5);
            labels.add(3, listener, 1);
            labels.add_sockets(listener, before);
            // A thread has its copy before more sockets come.
            let copy = labels.clone();
            labels.add_sockets(listener, added);
            prop_assert_eq!(copy.sockets(listener), before + added);
            let here = ([192, 0, 2, 1], 443).into();
            let (ecn, datagram) = (Ecn::Ect0, &datagram[..]);
            let frame =
                ForwardedDatagram { worker: from, label: 3, peer: here, local: here, ecn, datagram };
            let socket = steering.socket(before + added, datagram);
            let socket = socket.map_or(usize::from(from), |socket| socket as usize);
            let place = copy.place(&frame, |_| workers);
            prop_assert_eq!(place, Some((listener, 1, socket % workers)));
            prop_assert_eq!(copy.place(&frame, |_| 0), None);
            let unknown = ForwardedDatagram { label: 4, ..frame };
            prop_assert_eq!(copy.place(&unknown, |_| workers), None);
        }
    }

    #[test]
    fn an_error_of_the_system_is_no_end_of_the_other_process() {
        for (errno, failure) in [
            (Errno::INTR, Failure::Passes),
            (Errno::NOBUFS, Failure::Passes),
            (Errno::NOMEM, Failure::Passes),
            (Errno::PIPE, Failure::Closed),
            (Errno::CONNRESET, Failure::Closed),
            (Errno::BADF, Failure::Broken),
        ] {
            assert_eq!(Failure::of(&errno.into()), failure, "{errno}");
        }
        assert_eq!(Failure::of(&io::ErrorKind::InvalidData.into()), Failure::Broken);
    }

    const LISTENER: ListenerId = ListenerId(5);

    fn meta() -> RxMeta {
        let (peer, local) = ([192, 0, 2, 1], [198, 51, 100, 1]);
        let (peer, local) = ((peer, 5000).into(), (local, 443).into());
        RxMeta { listener: LISTENER, peer, local, ecn: Ecn::Ect0 }
    }

    /// Returns a relay of one worker with that worker's end, which has one datagram for the other process, and the stream there, by which
    /// two have come.
    fn relay() -> (Relay, Misrouted, UnixStream, StdStream) {
        let mut ends = misrouted(2).into_iter();
        let (mut worker, ring) = (ends.next().unwrap(), ends.next().unwrap());
        let (mailbox, _received) = mailbox();
        let mut labels = AddressLabels::new(Steering::Hash);
        labels.add(3, LISTENER, 0);
        let lane = Lane { group: 0, worker: 0, ring, mailbox };
        let relay = Relay::new(vec![lane], labels, Arc::default(), Arc::default());
        worker.send(1, &meta(), b"out");
        worker.flush(|_| ());
        let (own, mut other) = StdStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let RxMeta { peer, local, ecn, .. } = meta();
        let mut frames = Vec::new();
        for datagram in [&b"one"[..], b"two"] {
            ForwardedDatagram { worker: 0, label: 3, peer, local, ecn, datagram }
                .write(&mut frames);
        }
        other.write_all(&frames).unwrap();
        (relay, worker, UnixStream::from_std(own).unwrap(), other)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test);
    }

    /// It has ended, with what this one has for it unread.
    #[test]
    fn what_the_other_process_has_sent_before_its_end_arrives() {
        run(async {
            let (mut relay, mut worker, own, other) = relay();
            drop(other);
            let result = relay.carry(&own).await;
            assert!(result.is_ok(), "{result:?}");
            let mut received = Vec::new();
            worker.receive(10, |_, datagram| received.push(datagram.to_vec()));
            assert_eq!(received, [b"one", b"two"]);
        });
    }

    #[test]
    fn what_is_under_way_when_the_other_process_ends_is_counted() {
        run(async {
            let (relay, worker, own, other) = relay();
            drop(other);
            let (losses, notify) = (Arc::clone(&relay.losses), Arc::clone(&relay.notify));
            let own = own.into_std().unwrap();
            let forget = move || {
                drop(worker);
                notify.notify_one();
            };
            relay.run(own, forget).await;
            assert_eq!(losses.counters().late.load(Ordering::Relaxed), 3);
        });
    }

    #[test]
    fn what_comes_after_the_last_worker_has_ended_is_counted() {
        run(async {
            let (relay, worker, own, mut other) = relay();
            let losses = Arc::clone(&relay.losses);
            drop(worker);
            relay.run(own.into_std().unwrap(), || ()).await;
            assert_eq!(losses.counters().late.load(Ordering::Relaxed), 2);
            let mut frame = [0; 200];
            let length = other.read(&mut frame).unwrap();
            let (sent, _) = ForwardedDatagram::read(&frame[..length]).unwrap().unwrap();
            assert_eq!(sent.datagram, b"out");
            assert!(other.write_all(b"more").is_err(), "it is not read any more");
            other.set_nonblocking(true).unwrap();
            let open = other.read(&mut frame).unwrap_err();
            assert_eq!(open.kind(), io::ErrorKind::WouldBlock, "its end would be this process's");
        });
    }

    #[test]
    fn of_frames_that_have_left_in_part_the_whole_ones_count_as_sent() {
        run(async {
            let (mut relay, ..) = relay();
            let RxMeta { peer, local, ecn, .. } = meta();
            for datagram in [&b"first"[..], b"second", b"third"] {
                ForwardedDatagram { worker: 0, label: 3, peer, local, ecn, datagram }
                    .write(&mut relay.out);
            }
            relay.written = relay.out.len() / 2;
            relay.drop_unsent();
            assert_eq!(relay.losses.counters().late.load(Ordering::Relaxed), 2);
        });
    }

    #[test]
    fn the_first_datagrams_wait_for_what_must_come_before() {
        let mut ends = misrouted(2).into_iter();
        let (mut worker, ring) = (ends.next().unwrap(), ends.next().unwrap());
        let (mailbox, _received) = mailbox();
        let mut labels = AddressLabels::new(Steering::Hash);
        labels.add(3, ListenerId(5), 0);
        let lane = Lane { group: 0, worker: 0, ring, mailbox };
        let (called, calls) = std::sync::mpsc::channel();
        let relay = Relay::new(vec![lane], labels, Arc::default(), Arc::default());
        let mut relay = relay.before_first(move || {
            let mut early = 0;
            worker.receive(10, |_, _| early += 1);
            called.send((worker, early)).unwrap();
        });
        let (own, mut other) = StdStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let (peer, ecn) = (([192, 0, 2, 1], 5000).into(), Ecn::Ect0);
        let mut frames = Vec::new();
        for datagram in [&b"one"[..], b"two"] {
            ForwardedDatagram { worker: 0, label: 3, peer, local: peer, ecn, datagram }
                .write(&mut frames);
        }
        other.write_all(&frames).unwrap();
        drop(other);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result = runtime.block_on(async {
            let own = UnixStream::from_std(own).unwrap();
            relay.carry(&own).await
        });
        assert!(result.is_ok(), "{result:?}");
        let (mut worker, early) = calls.recv().unwrap();
        assert!(early == 0 && calls.recv().is_err());
        let mut count = 0;
        worker.receive(10, |_, _| count += 1);
        assert_eq!(count, 2);
    }
}
