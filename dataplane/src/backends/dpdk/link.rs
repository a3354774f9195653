//! The link of a port, as the kernel's interface behind it shows it.

use crate::interface;

/// Watches the interface behind a port. A port without one is taken to be up.
#[derive(Debug)]
pub(super) struct Link {
    interface: Option<String>,
    up: bool,
}

impl Link {
    pub(super) fn new(interface: Option<&str>) -> Self {
        Self { interface: interface.map(str::to_owned), up: true }
    }

    /// Returns the new state if it changed since the last look.
    pub(super) fn look(&mut self) -> Option<bool> {
        let up = interface::is_up(self.interface.as_deref()?);
        (std::mem::replace(&mut self.up, up) != up).then_some(up)
    }
}
