//! Offloads and modes of a driver.

/// Offloads and modes that a driver uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The kernel or device cuts batches into datagrams.
    pub gso: bool,
    /// The kernel or device merges received datagrams.
    pub gro: bool,
    /// The driver's wait polls the network device's queue (NAPI busy polling).
    pub napi: bool,
    /// Large batches are sent without copying them.
    pub zero_copy: bool,
}

impl Features {
    /// Returns the name and state of each, for a log and a metrics page.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, bool); 4] {
        [("gso", self.gso), ("gro", self.gro), ("napi", self.napi), ("zero_copy", self.zero_copy)]
    }
}
