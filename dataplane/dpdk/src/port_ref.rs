//! References by which queues and buffers keep their port open.

use std::rc::Rc;
use std::sync::Arc;

use crate::device::Inner;
use crate::eal::Registered;
use crate::error::Error;

/// Reference of a thread to a port: while there is one, the port and its pools of buffers are open and the environment runs.
///
/// It stays on its thread, and so do the buffers that have one. So nobody returns a buffer while another thread closes the
/// port.
#[derive(Clone, Debug)]
pub(crate) struct PortRef(Rc<Open>);

#[derive(Debug)]
struct Open {
    inner: Arc<Inner>,
    _registered: Registered,
}

impl PortRef {
    /// Makes a reference of the current thread, and registers the thread.
    pub(crate) fn new(inner: Arc<Inner>) -> Result<Self, Error> {
        let registered = Registered::thread(inner.eal().clone())?;
        Ok(Self(Rc::new(Open { inner, _registered: registered })))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0.inner
    }

    /// Returns whether both refer to the same port.
    pub(crate) fn is_same_port(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.inner, &other.0.inner)
    }
}
