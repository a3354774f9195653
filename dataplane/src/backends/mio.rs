//! Sockets and the crate mio: the backend that runs on every Linux.

mod rx;
mod selector;
mod socket;
mod tx;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use self::selector::Selector;
use self::socket::Socket;
use crate::binding::{Binding, filter_initials};
use crate::contract::Dataplane;
use crate::counters::Counters;
use crate::egress::Egress;
use crate::error::OpenError;
use crate::event::{Event, Events as News};
use crate::features::Features;
use crate::initials::InitialFilter;
use crate::meta::{Budget, RxMeta};
use crate::options::DriverOptions;
use crate::waker::Waker;

/// Name in a configuration.
pub(super) const NAME: &str = "mio";

/// Number of the waker's eventfd in the selector; sockets have their index.
const WAKER: usize = usize::MAX;

/// A driver of ordinary sockets.
pub struct Mio {
    options: DriverOptions,
    selector: Selector,
    waker: Waker,
    /// The waker was used before the end of the last wait.
    woken: bool,
    sockets: Vec<Socket>,
    rx: rx::Receiver,
    tx: tx::Transmitter,
    news: News,
    counters: Counters,
}

impl Mio {
    /// Opens a driver for `bindings`, which reads from them if it `receives`.
    ///
    /// # Errors
    /// Descriptors or memory ran out.
    pub(crate) fn open(
        options: &DriverOptions,
        bindings: Vec<Binding>,
        receives: bool,
    ) -> Result<Self, OpenError> {
        let waker = Waker::open(true).map_err(failed("eventfd"))?;
        Self::woken_by(waker, options, bindings, receives)
    }

    /// Opens a driver for other bindings, which has the same waker and goes on counting.
    ///
    /// # Errors
    /// Descriptors or memory ran out.
    pub(super) fn reopen(&self, bindings: Vec<Binding>, receives: bool) -> Result<Self, OpenError> {
        Self::woken_by(self.waker.clone(), &self.options, bindings, receives)
    }

    fn woken_by(
        waker: Waker,
        options: &DriverOptions,
        bindings: Vec<Binding>,
        receives: bool,
    ) -> Result<Self, OpenError> {
        let selector = Selector::open().map_err(failed("open a selector"))?;
        if let Some(eventfd) = waker.eventfd() {
            let watched = selector.add(eventfd, WAKER);
            watched.map_err(failed("watch the waker"))?;
        }
        let mut sockets = Vec::with_capacity(bindings.len());
        for (index, binding) in bindings.into_iter().enumerate() {
            if receives {
                let watched = selector.add(binding.as_fd(), index);
                watched.map_err(failed("watch a socket"))?;
            }
            sockets.push(Socket::new(binding, receives));
        }
        Ok(Self {
            options: *options,
            selector,
            waker,
            woken: false,
            rx: rx::Receiver::new(options),
            tx: tx::Transmitter::new(&sockets),
            sockets,
            news: News::new(),
            counters: Counters::default(),
        })
    }

    /// Returns its sockets.
    pub(super) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.sockets.iter().map(|socket| &socket.binding)
    }

    /// Returns whether it reads from its sockets.
    pub(super) fn receives(&self) -> bool {
        self.sockets.iter().all(|socket| socket.is_read)
    }

    /// Reads from its sockets, or no more.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn set_receiving(&mut self, on: bool) -> io::Result<()> {
        let Self { sockets, selector, counters, news, .. } = self;
        for (index, socket) in sockets.iter_mut().enumerate() {
            let was_read = socket.is_read;
            socket.set_read(selector, index, on)?;
            let Socket { ingress, binding, .. } = socket;
            match (was_read, on) {
                (true, false) => ingress.end(binding, counters, news),
                (false, true) => ingress.begin(binding),
                _ => {}
            }
        }
        Ok(())
    }

    /// Continues the counters of another driver, which reads no more.
    pub(super) fn count_on(&mut self, counters: Counters) {
        self.counters = counters;
        for Socket { ingress, binding, .. } in &mut self.sockets {
            ingress.begin(binding);
        }
    }

    /// Returns whether datagrams wait, as far as is known.
    fn can_receive(&self) -> bool {
        self.rx.is_pending() || self.sockets.iter().any(|socket| socket.readable)
    }

    fn note_events(&mut self) {
        for event in self.selector.ready() {
            // The waker's edge ended the sleep; its state says the rest.
            let Some(socket) = self.sockets.get_mut(event.token) else {
                continue;
            };
            socket.readable |= socket.is_read && !socket.down && event.readable;
            if event.writable {
                self.tx.lanes.on_writable(event.token);
            }
        }
    }
}

/// Returns how the error of a step is reported.
fn failed(step: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::new(NAME, step, source, "see the system's limits")
}

impl Dataplane for Mio {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn features(&self) -> Features {
        Features {
            gso: self.sockets.iter().all(|socket| socket.binding.gso()),
            gro: self.sockets.iter().all(|socket| socket.binding.gro()),
            napi: false,
            zero_copy: false,
        }
    }

    fn receive(
        &mut self,
        budget: Budget,
        sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        let (counters, news) = (&mut self.counters, &mut self.news);
        Ok(self.rx.receive(&mut self.sockets, counters, news, budget, sink))
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
            let watched = socket.watch_writable(&self.selector, index, blocked);
            if watched.is_err() {
                // The next attempt to send says what is wrong with it.
                self.tx.lanes.on_writable(index);
            }
        }
        let busy = self.tx.lanes.can_send() || self.can_receive();
        let sleeps = !busy && timeout != Some(Duration::ZERO) && self.waker.begin_sleep();
        // Even where it need not sleep it looks: else one busy socket would hide the others.
        let timeout = if sleeps { timeout } else { Some(Duration::ZERO) };
        self.selector.wait(timeout)?;
        self.woken = self.waker.take();
        self.note_events();
        Ok(())
    }

    fn has_work(&self) -> bool {
        self.woken || self.tx.lanes.can_send() || self.can_receive() || !self.news.is_empty()
    }

    fn filter_initials(&mut self, filter: Option<&InitialFilter>) -> io::Result<()> {
        filter_initials(self.sockets.iter().map(|socket| &socket.binding), filter)
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
