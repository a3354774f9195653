//! Bounds the requests that an upstream handles at a time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots for the requests of one upstream, from all origin threads.
#[derive(Debug)]
pub(super) struct Slots(Option<Arc<Semaphore>>);

/// Slot of a request, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Slots {
    /// Returns `count` slots; 0 stands for no limit.
    pub(super) fn new(count: u64) -> Slots {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let count = count.min(Semaphore::MAX_PERMITS);
        Slots((count > 0).then(|| Arc::new(Semaphore::new(count))))
    }

    /// Returns whether a slot is free that no other request waits for.
    pub(super) fn has_room(&self) -> bool {
        { self.0.as_ref() }.is_none_or(|slots| slots.available_permits() > 0)
    }

    /// Returns a slot if one is free that no other request waits for.
    pub(super) fn try_take(&self) -> Option<Slot> {
        let Some(slots) = &self.0 else {
            return Some(Slot { _permit: None });
        };
        let permit = Arc::clone(slots).try_acquire_owned().ok()?;
        Some(Slot {
            _permit: Some(permit),
        })
    }

    /// Waits for a slot. Requests get slots in the order in which they began to wait.
    pub(super) async fn take(&self) -> Slot {
        let permit = match &self.0 {
            // It fails only after the semaphore was closed, which nobody does.
            Some(slots) => Arc::clone(slots).acquire_owned().await.ok(),
            None => None,
        };
        Slot { _permit: permit }
    }
}
