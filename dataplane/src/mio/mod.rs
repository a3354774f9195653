//! Sockets and epoll: the backend that runs on every Linux.
//!
//! Sleeping is epoll's business (through the crate `mio`), but not its deadline: epoll counts whole milliseconds, so a
//! timerfd wakes it.

mod rx;
mod tx;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use ::mio::unix::SourceFd;
use ::mio::{Events, Interest, Poll, Token};

use crate::egress::MAX_TRANSMIT;
use crate::{
    Backend, Binding, Caps, Counters, Dataplane, DriverOptions, OpenError, RxMeta, Transmitted,
    TxMeta, Waker, sys,
};

const WAKER: Token = Token(usize::MAX - 1);
const TIMER: Token = Token(usize::MAX - 2);
const EVENTS: usize = 64;

/// A driver of ordinary sockets.
pub struct Mio {
    poll: Poll,
    events: Events,
    timer: File,
    timer_armed: bool,
    waker: Waker,
    sockets: Vec<Socket>,
    rx: rx::Receiver,
    tx: tx::Transmitter,
    counters: Counters,
}

/// A binding and what is known of its state; epoll is edge-triggered.
struct Socket {
    binding: Binding,
    /// Something may be there: nothing was missing since the last edge.
    readable: bool,
    /// GSO works, as far as is known.
    gso: bool,
    /// Edges for writability are asked for.
    watches_writable: bool,
}

impl Mio {
    /// Opens a driver for `bindings`.
    ///
    /// # Errors
    /// Descriptors or memory ran out.
    pub fn open(options: &DriverOptions, bindings: Vec<Binding>) -> Result<Self, OpenError> {
        let failed = |step| move |source| OpenError::new(Backend::Mio, step, source);
        let poll = Poll::new().map_err(failed("epoll_create"))?;
        let waker = Waker::open(true).map_err(failed("eventfd"))?;
        let timer = File::from(sys::timerfd().map_err(failed("timerfd_create"))?);
        let registry = poll.registry();
        if let Some(fd) = waker.fd() {
            registry
                .register(&mut SourceFd(&fd), WAKER, Interest::READABLE)
                .map_err(failed("watch the waker"))?;
        }
        registry
            .register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)
            .map_err(failed("watch the timer"))?;
        let mut sockets = Vec::with_capacity(bindings.len());
        for (index, binding) in bindings.into_iter().enumerate() {
            binding
                .set_nonblocking(true)
                .map_err(failed("O_NONBLOCK"))?;
            let fd = binding.as_fd().as_raw_fd();
            registry
                .register(&mut SourceFd(&fd), Token(index), Interest::READABLE)
                .map_err(failed("watch a socket"))?;
            sockets.push(Socket {
                gso: binding.gso(),
                binding,
                // What waits already is an edge, too.
                readable: false,
                watches_writable: false,
            });
        }
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS),
            timer,
            timer_armed: false,
            waker,
            sockets,
            rx: rx::Receiver::new(options),
            tx: tx::Transmitter::new(),
            counters: Counters::default(),
        })
    }

    /// Sets the timer and returns what epoll shall be told.
    fn arm(&mut self, timeout: Option<Duration>) -> io::Result<Option<Duration>> {
        match timeout {
            Some(Duration::ZERO) => return Ok(timeout),
            Some(delay) => sys::timerfd_set(self.timer.as_fd(), delay)?,
            None if self.timer_armed => sys::timerfd_set(self.timer.as_fd(), Duration::ZERO)?,
            None => {}
        }
        self.timer_armed = timeout.is_some();
        Ok(None)
    }

    fn note_events(&mut self) {
        for event in &self.events {
            match event.token() {
                WAKER => {
                    self.waker.drain();
                    self.waker.take();
                }
                // Rearming resets it.
                TIMER => self.timer_armed = false,
                Token(index) => {
                    let Some(socket) = self.sockets.get_mut(index) else {
                        continue;
                    };
                    socket.readable |= event.is_readable() || event.is_error();
                    if event.is_writable() || event.is_error() {
                        self.tx.on_writable(index);
                    }
                }
            }
        }
    }
}

impl Dataplane for Mio {
    fn caps(&self) -> Caps {
        Caps {
            backend: Backend::Mio.name(),
            gso: self.sockets.iter().any(|socket| socket.gso),
            gro: self.sockets.iter().any(|socket| socket.binding.gro()),
            ecn: true,
            max_transmit: MAX_TRANSMIT,
            polls: false,
        }
    }

    fn receive(
        &mut self,
        budget: usize,
        sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        self.rx
            .receive(&mut self.sockets, &mut self.counters, budget, sink)
    }

    fn transmit(
        &mut self,
        budget: usize,
        fill: impl FnMut(&mut [u8]) -> Option<TxMeta>,
    ) -> io::Result<Transmitted> {
        self.tx
            .transmit(&mut self.sockets, &mut self.counters, budget, fill)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if let Some(index) = self.tx.blocked() {
            let socket = &mut self.sockets[index];
            watch_writable(self.poll.registry(), index, socket, true)?;
        } else {
            for (index, socket) in self.sockets.iter_mut().enumerate() {
                watch_writable(self.poll.registry(), index, socket, false)?;
            }
        }
        // Even where it need not sleep it looks: else one busy socket would hide the others.
        let busy = self.tx.can_go_on() || self.sockets.iter().any(|socket| socket.readable);
        let timeout = self.arm(if busy { Some(Duration::ZERO) } else { timeout })?;
        loop {
            match self.poll.poll(&mut self.events, timeout) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.note_events();
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// Asks for writability only while it is waited for: every sent datagram would be an edge.
fn watch_writable(
    registry: &::mio::Registry,
    index: usize,
    socket: &mut Socket,
    on: bool,
) -> io::Result<()> {
    if socket.watches_writable == on {
        return Ok(());
    }
    let interest = if on {
        Interest::READABLE | Interest::WRITABLE
    } else {
        Interest::READABLE
    };
    let fd = socket.binding.as_fd().as_raw_fd();
    registry.reregister(&mut SourceFd(&fd), Token(index), interest)?;
    socket.watches_writable = on;
    Ok(())
}
