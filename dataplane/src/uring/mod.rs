//! Sockets and an `io_uring`: one system call submits sends, arms receives and sleeps.
//!
//! One ring per worker, used by the thread that opened it alone. Receives are multishot into a ring of buffers; a
//! buffer or slot belongs to the kernel or to us, never to both, and [`ring::Ring`] keeps all of them until the kernel
//! has let go.

mod buffers;
mod region;
mod ring;
mod rx;
mod slots;
mod tx;

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::egress::MAX_TRANSMIT;
use crate::{
    Backend, Binding, Caps, Counters, Dataplane, DriverOptions, OpenError, RxMeta, Transmitted,
    TxMeta, Waker,
};
use ring::{Completion, Failure, Ring, Token};

/// A driver of sockets through an `io_uring`. It stays on the thread that opened it.
pub struct Uring {
    ring: Ring,
    sockets: Vec<Socket>,
    rx: rx::Receiver,
    tx: tx::Transmitter,
    waker: Waker,
    /// A read of the eventfd is under way.
    waker_armed: bool,
    woken: bool,
    counters: Counters,
}

struct Socket {
    binding: Binding,
    /// GSO works, as far as is known.
    gso: bool,
}

impl Uring {
    /// Opens a driver for `bindings`, to be called by the thread that will use it.
    ///
    /// # Errors
    /// The host forbids `io_uring`, its kernel is too old, or descriptors or memory ran out.
    pub fn open(options: &DriverOptions, bindings: Vec<Binding>) -> Result<Self, OpenError> {
        Self::try_open(options, bindings).map_err(|(error, _)| error)
    }

    /// As [`Uring::open`]; returns the bindings where it fails.
    pub(crate) fn try_open(
        options: &DriverOptions,
        bindings: Vec<Binding>,
    ) -> Result<Self, (OpenError, Vec<Binding>)> {
        let refused = |(step, error)| OpenError::new(Backend::IoUring, step, error);
        let (mut ring, waker) = match Self::prepare(options, &bindings) {
            Ok(prepared) => prepared,
            Err(failure) => return Err((refused(failure), bindings)),
        };
        let sockets = bindings.into_iter().map(|binding| Socket {
            gso: binding.gso(),
            binding,
        });
        let sockets: Vec<_> = sockets.collect();
        let mut driver = Self {
            rx: rx::Receiver::new(sockets.len(), ring.buffers().count()),
            tx: tx::Transmitter::new(options),
            ring,
            sockets,
            waker,
            waker_armed: false,
            woken: false,
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

    fn prepare(options: &DriverOptions, bindings: &[Binding]) -> Result<(Ring, Waker), Failure> {
        let failed = |step| move |error| (step, error);
        let waker = Waker::open(false).map_err(failed("eventfd"))?;
        let eventfd = waker.fd().unwrap_or(-1);
        let mut fds = Vec::with_capacity(bindings.len());
        for binding in bindings {
            // The ring would pass on EAGAIN instead of waiting for datagrams.
            binding
                .set_nonblocking(false)
                .map_err(failed("O_NONBLOCK"))?;
            fds.push(binding.as_fd().as_raw_fd());
        }
        let ring = Ring::open(options.rx_buffers, options.tx_slots, &fds, eventfd)?;
        Ok((ring, waker))
    }

    /// Arms every socket and finds out whether the kernel can receive like that.
    fn start(&mut self) -> io::Result<()> {
        self.rx.arm(&mut self.ring)?;
        self.ring.flush()?;
        self.reap()?;
        self.rx
            .refusal()
            .map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
    }

    /// Takes what has completed.
    fn reap(&mut self) -> io::Result<()> {
        while let Some(completion) = self.ring.completion() {
            match completion.token {
                Token::Receive(socket) => {
                    self.rx.on_completion(
                        socket,
                        completion,
                        &mut self.ring,
                        &mut self.counters,
                    )?;
                }
                Token::Send(slot) => self.tx.on_sent(slot, completion.result),
                Token::Writable(_) => self.tx.on_writable(),
                Token::Wake => {
                    self.waker_armed = false;
                    self.woken = true;
                }
                Token::Unknown => debug_assert!(false, "{completion:?}"),
            }
        }
        Ok(())
    }
}

impl Dataplane for Uring {
    fn caps(&self) -> Caps {
        Caps {
            backend: Backend::IoUring.name(),
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
        self.reap()?;
        if self.rx.waiting() < budget {
            self.ring.flush()?;
            self.reap()?;
        }
        self.rx.deliver(
            &mut self.ring,
            &self.sockets,
            &mut self.counters,
            budget,
            sink,
        )
    }

    fn transmit(
        &mut self,
        budget: usize,
        mut fill: impl FnMut(&mut [u8]) -> Option<TxMeta>,
    ) -> io::Result<Transmitted> {
        let mut transmitted = Transmitted::default();
        if self.tx.must_wait() {
            self.ring.flush()?;
            self.reap()?;
        }
        let mut dry = false;
        while !self.tx.must_wait() {
            if !dry {
                let left = budget - transmitted.buffers;
                let filled = self.tx.fill(
                    &mut self.ring,
                    &self.sockets,
                    &mut self.counters,
                    left,
                    &mut fill,
                );
                transmitted.buffers += filled.buffers;
                dry = filled.dry || transmitted.buffers == budget;
            }
            if self.tx.is_empty() {
                if dry {
                    break;
                }
                continue;
            }
            self.tx.submit(&mut self.ring)?;
            while self.tx.under_way() > 0 {
                self.ring.enter(self.tx.under_way(), None)?;
                self.reap()?;
            }
            self.tx.settle(&mut self.sockets, &mut self.counters)?;
        }
        transmitted.blocked = self.tx.must_wait();
        Ok(transmitted)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.reap()?;
        self.rx.arm(&mut self.ring)?;
        self.tx.watch(&mut self.ring)?;
        if !self.waker_armed {
            self.ring.watch_eventfd()?;
            self.waker_armed = true;
        }
        let due = self.rx.waiting() > 0 || self.tx.can_go_on() || self.woken;
        if due || timeout == Some(Duration::ZERO) {
            self.ring.flush()?;
        } else {
            self.ring.enter(1, timeout)?;
        }
        self.reap()?;
        if std::mem::take(&mut self.woken) {
            self.waker.take();
        }
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
