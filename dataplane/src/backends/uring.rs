//! Sockets and an `io_uring`: one system call submits sends, arms receives and sleeps.
//!
//! One ring per worker, used by the thread that opened it alone. Receives are multishot into a ring of buffers; a
//! buffer belongs to the kernel or to us, never to both, and [`ring::Ring`] keeps all of them until the last request has
//! ended.

mod buffers;
mod completion;
mod probe;
mod region;
mod ring;
mod rx;
mod slots;
mod socket;
mod tx;

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use self::completion::Token;
use self::probe::Failure;
use self::ring::{Ring, RingSizes};
use self::socket::Socket;
use crate::binding::{Binding, filter_initials};
use crate::contract::Dataplane;
use crate::counters::Counters;
use crate::egress::{Egress, NoRoom};
use crate::error::OpenError;
use crate::event::{Event, Events};
use crate::features::Features;
use crate::initials::InitialFilter;
use crate::lanes::Place;
use crate::meta::{Budget, ListenerId, RxMeta, TxMeta};
use crate::options::DriverOptions;
use crate::waker::Waker;

/// Name in a configuration.
pub(super) const NAME: &str = "io_uring";

/// Submissions for what is left at the end of a transmission: as many as its budget can fill.
const SUBMISSIONS: usize = 32;

/// A driver of sockets through an `io_uring`. It stays on the thread that opened it.
pub struct Uring {
    options: DriverOptions,
    ring: Ring,
    sockets: Vec<Socket>,
    rx: rx::Receiver,
    tx: tx::Transmitter,
    waker: Waker,
    /// A read of the eventfd is under way.
    waker_armed: bool,
    /// The waker was used before the end of the last wait.
    woken: bool,
    /// The ring's waits poll the network device's queue.
    napi: bool,
    events: Events,
    counters: Counters,
}

impl Uring {
    /// Opens a driver for `bindings`, which reads from them if it `receives`, to be called by the thread that will use it. Returns the bindings where it fails.
    ///
    /// # Errors
    /// The host forbids `io_uring`, its kernel is too old, or descriptors or memory ran out.
    pub(crate) fn open(
        options: &DriverOptions,
        bindings: Vec<Binding>,
        receives: bool,
    ) -> Result<Self, (OpenError, Vec<Binding>)> {
        Self::woken_by(None, options, bindings, receives)
    }

    /// Opens a driver for other bindings, which has the same waker.
    ///
    /// # Errors
    /// As with [`Uring::open`].
    pub(super) fn reopen(&self, bindings: Vec<Binding>, receives: bool) -> Result<Self, OpenError> {
        let waker = Some(self.waker.clone());
        let opened = Self::woken_by(waker, &self.options, bindings, receives);
        opened.map_err(|(error, _)| error)
    }

    /// Opens a driver with that waker, or one of its own.
    fn woken_by(
        waker: Option<Waker>,
        options: &DriverOptions,
        bindings: Vec<Binding>,
        receives: bool,
    ) -> Result<Self, (OpenError, Vec<Binding>)> {
        let refused = |(step, error)| {
            let remedy = remedy(&error);
            OpenError::new(NAME, step, error, remedy)
        };
        let (ring, waker) = match Self::prepare(waker, options, &bindings) {
            Ok(prepared) => prepared,
            Err(failure) => return Err((refused(failure), bindings)),
        };
        let busy_poll = bindings.iter().map(Binding::busy_poll).max().unwrap_or(0);
        let napi = busy_poll > 0 && ring.poll_network(busy_poll);
        let sockets: Vec<_> = bindings.into_iter().map(Socket::new).collect();
        let mut driver = Self {
            options: *options,
            rx: rx::Receiver::new(sockets.len(), options.rx_buffers.next_power_of_two(), receives),
            tx: tx::Transmitter::new(options, &sockets, ring.has_zero_copy()),
            ring,
            sockets,
            waker,
            waker_armed: false,
            woken: false,
            napi,
            events: Events::new(),
            counters: Counters::default(),
        };
        match driver.start() {
            Ok(()) => Ok(driver),
            Err(error) => {
                let Self { ring, sockets, .. } = driver;
                drop(ring);
                let bindings = sockets.into_iter().map(|socket| socket.binding).collect();
                Err((refused(("multishot recvmsg", error)), bindings))
            }
        }
    }

    fn prepare(
        waker: Option<Waker>,
        options: &DriverOptions,
        bindings: &[Binding],
    ) -> Result<(Ring, Waker), Failure> {
        let waker = waker.map_or_else(|| Waker::open(false), Ok);
        let waker = waker.map_err(|error| ("eventfd", error))?;
        let eventfd = waker.eventfd().map_or(-1, |fd| fd.as_raw_fd());
        let fds: Vec<_> = bindings.iter().map(|b| b.as_fd().as_raw_fd()).collect();
        let sizes = RingSizes {
            rx_buffers: options.rx_buffers,
            heads: tx::HEADS,
            tx_buffers: tx::Transmitter::buffers(options, bindings.len()),
        };
        let ring = Ring::open(sizes, &fds, eventfd)?;
        Ok((ring, waker))
    }

    /// Returns its sockets.
    pub(super) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.sockets.iter().map(|socket| &socket.binding)
    }

    /// Returns whether it reads from its sockets.
    pub(super) fn receives(&self) -> bool {
        self.rx.receives()
    }

    /// Reads from its sockets, or no more.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn set_receiving(&mut self, on: bool) -> io::Result<()> {
        let did = self.rx.receives();
        self.rx.set_receives(on);
        if on {
            if !did {
                self.begin_counting();
            }
            self.rx.arm(&mut self.ring)?;
            return self.ring.flush();
        }
        for socket in 0..self.sockets.len() {
            self.ring.end_receive(socket)?;
        }
        if did {
            for Socket { ingress, binding } in &mut self.sockets {
                ingress.end(binding, &mut self.counters, &mut self.events);
            }
        }
        // What they had received before their end.
        self.reap()
    }

    /// Continues the counters of another driver, which reads no more.
    pub(super) fn count_on(&mut self, counters: Counters) {
        self.counters = counters;
        self.begin_counting();
    }

    /// Counts what the kernel drops from here on.
    fn begin_counting(&mut self) {
        for Socket { ingress, binding } in &mut self.sockets {
            ingress.begin(binding);
        }
    }

    /// Arms every socket, which fails where the kernel has no multishot receives.
    fn start(&mut self) -> io::Result<()> {
        self.rx.arm(&mut self.ring)?;
        self.ring.flush()?;
        self.reap()?;
        self.rx.refusal().map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
    }

    /// Handles all completions that are there.
    fn reap(&mut self) -> io::Result<()> {
        while let Some(completion) = self.ring.completion() {
            match completion.token {
                Token::Receive(socket) => {
                    let listener = self.sockets.get(socket).map(|s| s.binding.listener());
                    let down = self.rx.on_completion(
                        socket,
                        completion,
                        &mut self.ring,
                        &mut self.counters,
                    );
                    if let (true, Some(listener)) = (down, listener) {
                        self.events.push(Event::PortDown { listener }, &mut self.counters);
                    }
                }
                Token::Send(head) => self.tx.on_completion(head, &completion),
                Token::Writable(socket) => self.tx.on_writable(socket),
                Token::Wake => self.waker_armed = false,
                Token::Unknown => debug_assert!(false, "{completion:?}"),
            }
        }
        Ok(())
    }

    /// Handles all completions that are there, and then the messages that were sent.
    fn settle(&mut self) -> io::Result<()> {
        self.reap()?;
        self.tx.settle(&mut self.ring, &mut self.counters, &mut self.events);
        Ok(())
    }

    /// Sends every closed batch whose socket has room, before the worker waits.
    fn send_closed(&mut self) -> io::Result<()> {
        self.tx.submit(&mut self.ring)?;
        self.ring.enter(0, None)?;
        self.settle()
    }
}

impl Dataplane for Uring {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn features(&self) -> Features {
        Features {
            gso: self.sockets.iter().all(|socket| socket.binding.gso()),
            gro: self.sockets.iter().all(|socket| socket.binding.gro()),
            napi: self.napi,
            zero_copy: self.tx.has_zero_copy(),
        }
    }

    fn receive(
        &mut self,
        budget: Budget,
        sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        self.reap()?;
        let (counters, events) = (&mut self.counters, &mut self.events);
        self.rx.deliver(&mut self.ring, &mut self.sockets, counters, events, budget, sink)
    }

    fn transmit<R>(
        &mut self,
        budget: Budget,
        emit: impl FnOnce(&mut dyn Egress) -> R,
    ) -> io::Result<R> {
        self.tx.on_transmit();
        // What blocked earlier goes first.
        self.tx.submit(&mut self.ring)?;
        let mut emission = Emission { driver: self, budget, error: None };
        let result = emit(&mut emission);
        if let Some(error) = emission.error {
            return Err(error);
        }
        self.tx.lanes.close_all();
        self.tx.submit(&mut self.ring)?;
        // The rest leaves with the next wait, but for more messages than one submission takes.
        for _ in 0..SUBMISSIONS {
            if !self.tx.has_unsubmitted() {
                break;
            }
            self.send_closed()?;
        }
        Ok(result)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.reap()?;
        self.rx.arm(&mut self.ring)?;
        self.tx.watch(&mut self.ring)?;
        if !self.waker_armed {
            self.ring.watch_eventfd()?;
            self.waker_armed = true;
        }
        self.tx.submit(&mut self.ring)?;
        let due = self.rx.waiting() > 0 || self.tx.has_unsubmitted() || self.tx.is_relieved();
        if due || timeout == Some(Duration::ZERO) || !self.waker.begin_sleep() {
            self.ring.flush()?;
        } else {
            self.ring.enter(1, timeout)?;
        }
        self.woken = self.waker.take();
        self.settle()
    }

    fn has_work(&self) -> bool {
        self.woken
            || self.rx.waiting() > 0
            || self.tx.has_unsubmitted()
            || self.tx.is_relieved()
            || !self.events.is_empty()
    }

    fn filter_initials(&mut self, filter: Option<&InitialFilter>) -> io::Result<()> {
        filter_initials(self.sockets.iter().map(|socket| &socket.binding), filter)
    }

    fn take_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// One transmission.
struct Emission<'a> {
    driver: &'a mut Uring,
    budget: Budget,
    /// Error that broke the ring.
    error: Option<io::Error>,
}

impl Emission<'_> {
    /// Sends every closed batch whose socket has room.
    fn send(&mut self) {
        if self.error.is_none() {
            self.error = self.driver.send_closed().err();
        }
    }
}

impl Egress for Emission<'_> {
    fn room(&mut self, listener: ListenerId, size: usize) -> Result<&mut [u8], NoRoom> {
        if self.budget.is_spent() || self.error.is_some() {
            return Err(NoRoom::Budget);
        }
        let lane = self.driver.tx.lanes.find(listener)?;
        if self.driver.tx.lanes.is_blocked(lane) {
            return Err(NoRoom::Blocked);
        }
        let mut place = self.driver.tx.lanes.room(lane, size);
        if place.is_none() {
            self.driver.tx.lanes.close(lane);
            self.send();
            place = self.driver.tx.lanes.room(lane, size);
        }
        let Some(Place { buffer, range }) = place else {
            self.driver.tx.on_starved();
            return Err(NoRoom::Blocked);
        };
        Ok(self.driver.ring.slots().payload(buffer, range))
    }

    fn commit(&mut self, len: usize, meta: &TxMeta) {
        self.budget.spend(len);
        let Uring { tx, counters, .. } = &mut *self.driver;
        if tx.lanes.commit(len, meta, counters).is_some() {
            tx.closed += 1;
            if tx.closed >= tx::HEADS {
                self.send();
            }
        }
    }
}

/// Returns what an operator can do about an error.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            "io_uring is forbidden here: allow io_uring_setup, io_uring_enter and \
             io_uring_register in the container's seccomp profile, set sysctl \
             kernel.io_uring_disabled=0, or choose the mio backend"
        }
        Some(libc::EINVAL | libc::EOPNOTSUPP) => {
            "the kernel is too old: multishot recvmsg and deferred task work need Linux 6.1; \
             choose the mio backend"
        }
        _ => "choose the mio backend",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_remedy() {
        let cases = [
            (libc::EPERM, "seccomp"),
            (libc::ENOSYS, "kernel.io_uring_disabled"),
            (libc::EINVAL, "Linux 6.1"),
        ];
        for (errno, part) in cases {
            assert!(remedy(&io::Error::from_raw_os_error(errno)).contains(part));
        }
    }
}
