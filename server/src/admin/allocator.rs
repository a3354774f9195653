//! What the allocator holds.

use tikv_jemalloc_ctl::{epoch, stats};

use crate::observe::metrics::{Page, Show};

/// Bytes, as jemalloc counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allocator {
    allocated: usize,
    active: usize,
    resident: usize,
    retained: usize,
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

impl Show for Allocator {
    fn show(&self, page: &mut Page) {
        let Allocator {
            allocated,
            active,
            resident,
            retained,
        } = self;
        for (name, help, value) in [
            (
                "sluicegate_allocator_allocated_bytes",
                "Memory that the process asked for and holds.",
                allocated,
            ),
            (
                "sluicegate_allocator_active_bytes",
                "Memory in pages of which at least a part is allocated.",
                active,
            ),
            (
                "sluicegate_allocator_resident_bytes",
                "Physical memory that the allocator holds, free pages that it has not given back included.",
                resident,
            ),
            (
                "sluicegate_allocator_retained_bytes",
                "Address space that the allocator keeps without memory behind it.",
                retained,
            ),
        ] {
            page.gauge(name, help, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_has_the_figures_and_they_are_in_order() {
        let read = Allocator::read().unwrap();
        assert!(
            read.allocated <= read.active && read.active <= read.resident,
            "{read:?}"
        );
    }
}
