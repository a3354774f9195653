//! Sockets and epoll: the backend that runs on every Linux.
//!
//! Sleeping is epoll's business (through the crate `mio`), but not its deadline: epoll counts whole milliseconds, so a
//! timerfd wakes it.

mod rx;
mod socket;
mod tx;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use ::mio::unix::SourceFd;
use ::mio::{Events, Interest, Poll, Token};

use self::socket::Socket;
use crate::binding::Binding;
use crate::contract::Dataplane;
use crate::counters::Counters;
use crate::egress::Egress;
use crate::error::OpenError;
use crate::event::{Event, Events as News};
use crate::meta::{Budget, RxMeta};
use crate::options::DriverOptions;
use crate::sys;
use crate::waker::Waker;

/// Name in a configuration.
pub(super) const NAME: &str = "mio";

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
    news: News,
    counters: Counters,
}

impl Mio {
    /// Opens a driver for `bindings`.
    ///
    /// # Errors
    /// Descriptors or memory ran out.
    pub(crate) fn open(options: &DriverOptions, bindings: Vec<Binding>) -> Result<Self, OpenError> {
        let failed =
            |step| move |source| OpenError::new(NAME, step, source, "see the system's limits");
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
            let fd = binding.as_fd().as_raw_fd();
            registry
                .register(&mut SourceFd(&fd), Token(index), Interest::READABLE)
                .map_err(failed("watch a socket"))?;
            sockets.push(Socket::new(binding));
        }
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS),
            timer,
            timer_armed: false,
            waker,
            rx: rx::Receiver::new(options),
            tx: tx::Transmitter::new(&sockets),
            sockets,
            news: News::new(),
            counters: Counters::default(),
        })
    }

    /// Sets the timer and returns the timeout for epoll.
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
                    socket.readable |= !socket.down && (event.is_readable() || event.is_error());
                    if event.is_writable() || event.is_error() {
                        self.tx.lanes.on_writable(index);
                    }
                }
            }
        }
    }
}

impl Dataplane for Mio {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn receive(
        &mut self,
        budget: Budget,
        sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        let (counters, news) = (&mut self.counters, &mut self.news);
        Ok(self
            .rx
            .receive(&mut self.sockets, counters, news, budget, sink))
    }

    fn transmit<R>(
        &mut self,
        budget: Budget,
        emit: impl FnOnce(&mut dyn Egress) -> R,
    ) -> io::Result<R> {
        let mut emission = tx::Emission {
            tx: &mut self.tx,
            sockets: &self.sockets,
            counters: &mut self.counters,
            events: &mut self.news,
            budget,
        };
        emission.flush();
        let result = emit(&mut emission);
        emission.flush();
        Ok(result)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            let blocked = self.tx.lanes.is_blocked(index);
            let registry = self.poll.registry();
            if socket
                .watch_writable(registry, Token(index), blocked)
                .is_err()
            {
                // The next attempt to send says what is wrong with it.
                self.tx.lanes.on_writable(index);
            }
        }
        // Even where it need not sleep it looks: else one busy socket would hide the others.
        let busy = self.tx.lanes.can_send()
            || self.rx.is_pending()
            || self.sockets.iter().any(|socket| socket.readable);
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

    fn take_event(&mut self) -> Option<Event> {
        self.news.take()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
