//! Changes the listeners of a running driver of sockets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::{Driver, Seed, Share};
use crate::binding::Binding;
use crate::contract::Dataplane;
use crate::error::OpenError;
use crate::meta::{Budget, ListenerId, RxMeta};

/// Calls in which a driver passes on what it holds before it is closed.
const LAST_CALLS: usize = 64;

impl Driver {
    /// Serves other listeners from now on: no longer those of `removed`, and in addition those of `added`, a seed of the same group. The
    /// other sockets stay open, and the waker is the same. Datagrams that were received before go to `sink`; batches that wait for
    /// room in a socket are lost, as on any path.
    ///
    /// The thread that uses the driver calls it. It opens another driver beside this one, and then replaces it.
    ///
    /// # Errors
    /// The backend has no sockets, or descriptors or memory ran out. Nothing has changed then.
    pub fn rebind(
        &mut self,
        added: Seed,
        removed: &[ListenerId],
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> Result<(), OpenError> {
        let failed = |driver: &Self, source| {
            let step = "change its listeners";
            OpenError::new(driver.backend(), step, source, "restart the server")
        };
        let added = match added.0 {
            Share::Sockets { bindings, .. } => bindings,
            #[cfg(any(feature = "dpdk", feature = "test-backends"))]
            _ => return Err(failed(self, io::ErrorKind::Unsupported.into())),
        };
        let all = kept(self.bindings(), removed, added).map_err(|error| failed(self, error))?;
        let next = self.reopen(all, self.receives())?;
        self.replace(next, &mut sink);
        Ok(())
    }

    /// Reads from its sockets no more, or again; it sends as before. Somebody else may read from them meanwhile. What was received before
    /// is still handed out.
    ///
    /// # Errors
    /// The backend has no sockets, or the system refuses. It reads again then, as far as it can.
    pub fn set_receiving(&mut self, on: bool) -> io::Result<()> {
        match self {
            Self::Mio(driver) => driver.set_receiving(on),
            Self::Uring(driver) => driver.set_receiving(on),
            #[cfg(any(feature = "dpdk", feature = "test-backends"))]
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns other descriptors of its sockets, each with its listener.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn duplicate_sockets(&self) -> io::Result<Vec<(ListenerId, OwnedFd)>> {
        let duplicated = self
            .bindings()
            .map(|binding| Ok((binding.listener(), binding.as_fd().try_clone_to_owned()?)));
        duplicated.collect()
    }

    /// Returns its sockets, if it has any.
    fn bindings(&self) -> Box<dyn Iterator<Item = &Binding> + '_> {
        match self {
            Self::Mio(driver) => Box::new(driver.bindings()),
            Self::Uring(driver) => Box::new(driver.bindings()),
            #[cfg(any(feature = "dpdk", feature = "test-backends"))]
            _ => Box::new(std::iter::empty()),
        }
    }

    fn receives(&self) -> bool {
        match self {
            Self::Mio(driver) => driver.receives(),
            Self::Uring(driver) => driver.receives(),
            #[cfg(any(feature = "dpdk", feature = "test-backends"))]
            _ => true,
        }
    }

    /// Opens a driver of the same kind for these sockets.
    fn reopen(&self, bindings: Vec<Binding>, receives: bool) -> Result<Driver, OpenError> {
        match self {
            Self::Mio(driver) => driver.reopen(bindings, receives).map(Self::Mio),
            Self::Uring(driver) => driver.reopen(bindings, receives).map(Self::Uring),
            #[cfg(any(feature = "dpdk", feature = "test-backends"))]
            _ => Err(OpenError::new(
                self.backend(),
                "change its listeners",
                io::ErrorKind::Unsupported.into(),
                "restart the server",
            )),
        }
    }

    /// Passes on what was received, and goes on as another driver.
    fn replace(&mut self, mut next: Driver, sink: &mut impl FnMut(&RxMeta, &mut [u8])) {
        // Else it would receive, and lose, what comes between the last call and its end. A driver that is broken receives nothing.
        let _ = self.set_receiving(false);
        self.pass_on(sink);
        let counters = self.counters();
        match &mut next {
            Self::Mio(driver) => driver.count_on(counters),
            Self::Uring(driver) => driver.count_on(counters),
            #[cfg(any(feature = "dpdk", feature = "test-backends"))]
            _ => {}
        }
        *self = next;
    }

    /// Passes on what was received. A driver that is broken has nothing more.
    fn pass_on(&mut self, sink: &mut impl FnMut(&RxMeta, &mut [u8])) {
        for _ in 0..LAST_CALLS {
            let waited = self.wait(Some(Duration::ZERO));
            let received = waited.and_then(|()| self.receive(Budget::UNLIMITED, &mut *sink));
            if matches!(received, Ok(0) | Err(_)) {
                return;
            }
        }
    }
}

/// Returns other descriptors of the sockets, but for those of `removed`, and `added` behind them.
fn kept<'a>(
    sockets: impl Iterator<Item = &'a Binding>,
    removed: &[ListenerId],
    added: Vec<Binding>,
) -> io::Result<Vec<Binding>> {
    let kept = sockets.filter(|binding| !removed.contains(&binding.listener()));
    let kept = kept.map(Binding::try_clone);
    kept.chain(added.into_iter().map(Ok)).collect()
}
