//! The one list of backends, and a driver that is any of them.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::memory::Memory;
use crate::mio::Mio;
use crate::uring::Uring;
use crate::{
    Binding, Caps, Counters, Dataplane, DriverOptions, OpenError, RxMeta, Transmitted, TxMeta,
    Waker,
};

/// Which backend to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The best that this host allows.
    #[default]
    Auto,
    /// Sockets and epoll.
    Mio,
    /// Sockets and an `io_uring`.
    IoUring,
}

/// No backend has that name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown backend `{name}`, expected one of: {}", Backend::ALL.map(Backend::name).join(", "))]
pub struct UnknownBackend {
    /// As given.
    pub name: String,
}

impl Backend {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Mio, Self::IoUring];

    /// The name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mio => "mio",
            Self::IoUring => "io_uring",
        }
    }

    /// One sentence for operators.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Auto => "io_uring where the host allows it, else mio",
            Self::Mio => "sockets and epoll; runs everywhere",
            Self::IoUring => "sockets and io_uring; needs Linux 6.1 and a container that allows it",
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
        found.ok_or_else(|| UnknownBackend {
            name: name.to_owned(),
        })
    }
}

/// A driver, and why it is not the one preferred.
pub struct Opened {
    /// Ready for use.
    pub driver: Driver,
    /// What [`Backend::Auto`] tried first.
    pub fallback: Option<OpenError>,
}

/// Opens a driver for one worker's `bindings`, to be called by the thread that will use it.
///
/// # Errors
/// The host forbids the backend or lacks what it needs; with [`Backend::Auto`] only where no backend can be opened.
pub fn open(
    backend: Backend,
    options: &DriverOptions,
    bindings: Vec<Binding>,
) -> Result<Opened, OpenError> {
    let (driver, fallback) = match backend {
        Backend::Mio => (Driver::Mio(Mio::open(options, bindings)?), None),
        Backend::IoUring => (Driver::Uring(Uring::open(options, bindings)?), None),
        Backend::Auto => match Uring::try_open(options, bindings) {
            Ok(driver) => (Driver::Uring(driver), None),
            Err((error, bindings)) => (Driver::Mio(Mio::open(options, bindings)?), Some(error)),
        },
    };
    Ok(Opened { driver, fallback })
}

/// A driver of any backend: one branch per call, none per datagram.
pub enum Driver {
    /// See [`Mio`].
    Mio(Mio),
    /// See [`Uring`].
    Uring(Uring),
    /// See [`Memory`].
    Memory(Memory),
}

macro_rules! dispatch {
    ($self:ident, $driver:ident => $call:expr) => {
        match $self {
            Self::Mio($driver) => $call,
            Self::Uring($driver) => $call,
            Self::Memory($driver) => $call,
        }
    };
}

impl Dataplane for Driver {
    fn caps(&self) -> Caps {
        dispatch!(self, driver => driver.caps())
    }

    fn receive(
        &mut self,
        budget: usize,
        sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        dispatch!(self, driver => driver.receive(budget, sink))
    }

    fn transmit(
        &mut self,
        budget: usize,
        fill: impl FnMut(&mut [u8]) -> Option<TxMeta>,
    ) -> io::Result<Transmitted> {
        dispatch!(self, driver => driver.transmit(budget, fill))
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        dispatch!(self, driver => driver.wait(timeout))
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
        assert_eq!(
            error,
            "unknown backend `epoll`, expected one of: auto, mio, io_uring"
        );
    }
}
