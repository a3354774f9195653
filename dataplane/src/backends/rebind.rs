//! Changes the listeners of a running driver of sockets.

use std::io;
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
        let name = self.backend();
        let failed = |step| move |source| OpenError::new(name, step, source, "restart the server");
        let mut next = match (&*self, added.0) {
            (Self::Mio(driver), Share::Sockets { options, bindings, .. }) => {
                let kept = kept(driver.bindings(), removed, bindings);
                let all = kept.map_err(failed("duplicate a socket"))?;
                Self::Mio(driver.reopen(&options, all)?)
            }
            (Self::Uring(driver), Share::Sockets { options, bindings, .. }) => {
                let kept = kept(driver.bindings(), removed, bindings);
                let all = kept.map_err(failed("duplicate a socket"))?;
                Self::Uring(driver.reopen(&options, all)?)
            }
            #[cfg(any(feature = "dpdk", feature = "test-backends"))]
            _ => {
                return Err(failed("change its listeners")(io::ErrorKind::Unsupported.into()));
            }
        };
        self.pass_on(&mut sink);
        let counters = self.counters();
        match &mut next {
            Self::Mio(driver) => driver.count_on(counters),
            Self::Uring(driver) => driver.count_on(counters),
            #[cfg(any(feature = "dpdk", feature = "test-backends"))]
            _ => {}
        }
        *self = next;
        Ok(())
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
