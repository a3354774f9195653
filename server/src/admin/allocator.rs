//! Memory that the allocator holds.

use tikv_jemalloc_ctl::{epoch, stats};

use sluicegate_base::observe::metrics::metrics;

metrics! {
    /// Figures of jemalloc, in bytes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Allocator {
        /// Bytes allocated by the process.
        allocated: usize = gauge("sluicegate_allocator_allocated_bytes"),
        /// Bytes in pages that contain allocated memory.
        active: usize = gauge("sluicegate_allocator_active_bytes"),
        /// Bytes of physical memory of the allocator, including free pages that it has not returned.
        resident: usize = gauge("sluicegate_allocator_resident_bytes"),
        /// Bytes of address space of the allocator without physical memory.
        retained: usize = gauge("sluicegate_allocator_retained_bytes"),
    }
}

impl Allocator {
    /// Reads the figures; `None` where jemalloc was built without them.
    pub(super) fn read() -> Option<Allocator> {
        // The figures are those of the last advance.
        epoch::advance().ok()?;
        Some(Allocator {
            allocated: stats::allocated::read().ok()?,
            active: stats::active::read().ok()?,
            resident: stats::resident::read().ok()?,
            retained: stats::retained::read().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_has_the_figures_and_they_are_in_order() {
        let read = Allocator::read().unwrap();
        assert!(read.allocated <= read.active && read.active <= read.resident, "{read:?}");
    }
}
