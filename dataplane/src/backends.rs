//! The one list of backends, the seeds that they grow from, and a driver that is any of them.

#[cfg(feature = "dpdk")]
pub(crate) mod dpdk;
#[cfg(feature = "test-backends")]
pub mod memory;
mod mio;
#[cfg(feature = "test-backends")]
pub mod port;
mod rebind;
mod uring;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

#[cfg(feature = "dpdk")]
use dpdk::{driver::Dpdk, seed::DpdkSeed};
#[cfg(feature = "test-backends")]
use memory::Memory;
use mio::Mio;
#[cfg(feature = "test-backends")]
use port::{Port, PortSeed};
use uring::Uring;

use crate::binding::Binding;
use crate::contract::Dataplane;
use crate::counters::Counters;
use crate::egress::Egress;
use crate::error::OpenError;
use crate::event::Event;
use crate::features::Features;
use crate::initials::InitialFilter;
use crate::meta::{Budget, RxMeta};
use crate::options::DriverOptions;
use crate::waker::Waker;

/// Selects the backend to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The best that this host allows.
    #[default]
    Auto,
    /// Sockets and epoll.
    Mio,
    /// Sockets and an `io_uring`.
    IoUring,
    /// A port that the workers drive themselves, by DPDK.
    Dpdk,
}

/// The error for a name that no backend has.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown backend `{name}`, expected one of: {}", Backend::ALL.map(Backend::name).join(", "))]
pub struct UnknownBackend {
    /// Name that was asked for.
    pub name: String,
}

impl Backend {
    /// All choices.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Mio, Self::IoUring, Self::Dpdk];

    /// Returns the name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mio => mio::NAME,
            Self::IoUring => uring::NAME,
            Self::Dpdk => "dpdk",
        }
    }

    /// Returns one sentence for operators.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Auto => "io_uring where the host allows it, else mio",
            Self::Mio => "sockets and epoll; runs everywhere",
            Self::IoUring => "sockets and io_uring; needs Linux 6.1 and a container that allows it",
            Self::Dpdk => "a network device that the server drives itself; needs a build with DPDK",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|backend| backend.name() == name);
        found.ok_or_else(|| UnknownBackend { name: name.to_owned() })
    }
}

/// One worker's share of a group, to be sent to its thread.
#[derive(Debug)]
pub struct Seed(Share);

/// Contents of a seed.
#[derive(Debug)]
enum Share {
    /// A socket of each listener, for a backend of sockets.
    Sockets { backend: Backend, options: DriverOptions, bindings: Vec<Binding>, receives: bool },
    /// A queue of a port of DPDK.
    #[cfg(feature = "dpdk")]
    Dpdk(Box<DpdkSeed>),
    /// A queue of a port.
    #[cfg(feature = "test-backends")]
    Port(PortSeed),
}

/// A driver, and why it is not the one preferred.
pub struct Opened {
    /// The driver, ready for use.
    pub driver: Driver,
    /// Error of the backend that [`Backend::Auto`] tried first and could not open.
    pub fallback: Option<OpenError>,
}

impl Seed {
    pub(crate) fn of_sockets(
        backend: Backend,
        options: DriverOptions,
        bindings: Vec<Binding>,
    ) -> Self {
        Self(Share::Sockets { backend, options, bindings, receives: true })
    }

    /// Has the driver of sockets not read from them until it is told to ([`Driver::set_receiving`]): an earlier process still does.
    #[must_use]
    pub fn without_receiving(self) -> Self {
        match self.0 {
            Share::Sockets { backend, options, bindings, .. } => {
                Self(Share::Sockets { backend, options, bindings, receives: false })
            }
            #[cfg(any(feature = "dpdk", feature = "test-backends"))]
            other => Self(other),
        }
    }

    /// Makes the driver, on the thread that will use it.
    ///
    /// # Errors
    /// The host forbids the backend or lacks what it needs; with [`Backend::Auto`] only where no backend can be opened.
    pub fn open(self) -> Result<Opened, OpenError> {
        let (backend, options, bindings, receives) = match self.0 {
            Share::Sockets { backend, options, bindings, receives } => {
                (backend, options, bindings, receives)
            }
            #[cfg(feature = "dpdk")]
            Share::Dpdk(seed) => return Ok(Driver::Dpdk(seed.open()?).into()),
            #[cfg(feature = "test-backends")]
            Share::Port(seed) => return Ok(Driver::Port(seed.open()).into()),
        };
        match backend {
            Backend::Mio => Ok(Driver::Mio(Mio::open(&options, bindings, receives)?).into()),
            // Sockets are no port; whoever opens a port gets seeds of its own.
            Backend::Dpdk => Err(OpenError::new(
                Backend::Dpdk.name(),
                "open a port",
                io::ErrorKind::InvalidInput.into(),
                "open it by Ports",
            )),
            Backend::IoUring => match Uring::open(&options, bindings, receives) {
                Ok(driver) => Ok(Driver::Uring(driver).into()),
                Err((error, _)) => Err(error),
            },
            Backend::Auto => match Uring::open(&options, bindings, receives) {
                Ok(driver) => Ok(Driver::Uring(driver).into()),
                Err((error, bindings)) => Ok(Opened {
                    driver: Driver::Mio(Mio::open(&options, bindings, receives)?),
                    fallback: Some(error),
                }),
            },
        }
    }
}

#[cfg(feature = "dpdk")]
impl From<DpdkSeed> for Seed {
    fn from(seed: DpdkSeed) -> Self {
        Self(Share::Dpdk(seed.into()))
    }
}

#[cfg(feature = "test-backends")]
impl From<PortSeed> for Seed {
    fn from(seed: PortSeed) -> Self {
        Self(Share::Port(seed))
    }
}

impl From<Driver> for Opened {
    fn from(driver: Driver) -> Self {
        Self { driver, fallback: None }
    }
}

/// A driver of any backend: one branch per call, none per datagram.
#[expect(clippy::large_enum_variant, reason = "a worker thread has one and never moves it")]
pub enum Driver {
    /// Sockets and epoll.
    Mio(Mio),
    /// Sockets and an `io_uring`.
    Uring(Uring),
    /// A queue of a port of DPDK.
    #[cfg(feature = "dpdk")]
    Dpdk(Dpdk),
    /// Memory shared with other drivers, for tests.
    #[cfg(feature = "test-backends")]
    Memory(Memory),
    /// A port that is polled, for tests.
    #[cfg(feature = "test-backends")]
    Port(Port),
}

macro_rules! dispatch {
    ($self:ident, $driver:ident => $call:expr) => {
        match $self {
            Self::Mio($driver) => $call,
            Self::Uring($driver) => $call,
            #[cfg(feature = "dpdk")]
            Self::Dpdk($driver) => $call,
            #[cfg(feature = "test-backends")]
            Self::Memory($driver) => $call,
            #[cfg(feature = "test-backends")]
            Self::Port($driver) => $call,
        }
    };
}

impl Dataplane for Driver {
    fn backend(&self) -> &'static str {
        dispatch!(self, driver => driver.backend())
    }

    fn features(&self) -> Features {
        dispatch!(self, driver => driver.features())
    }

    fn receive(
        &mut self,
        budget: Budget,
        sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        dispatch!(self, driver => driver.receive(budget, sink))
    }

    fn transmit<R>(
        &mut self,
        budget: Budget,
        emit: impl FnOnce(&mut dyn Egress) -> R,
    ) -> io::Result<R> {
        dispatch!(self, driver => driver.transmit(budget, emit))
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        dispatch!(self, driver => driver.wait(timeout))
    }

    fn has_work(&self) -> bool {
        dispatch!(self, driver => driver.has_work())
    }

    fn filter_initials(&mut self, filter: Option<&InitialFilter>) -> io::Result<()> {
        dispatch!(self, driver => driver.filter_initials(filter))
    }

    fn take_event(&mut self) -> Option<Event> {
        dispatch!(self, driver => driver.take_event())
    }

    fn waker(&self) -> Waker {
        dispatch!(self, driver => driver.waker())
    }

    fn counters(&self) -> Counters {
        dispatch!(self, driver => driver.counters())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_others_are_refused() {
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
        let error = "epoll".parse::<Backend>().unwrap_err().to_string();
        assert_eq!(error, "unknown backend `epoll`, expected one of: auto, mio, io_uring, dpdk");
    }
}
