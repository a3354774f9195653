//! Queue of the requests that wait until an upstream of their pool has room.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use sluicegate_base::clients::ClientPrefix;
use sluicegate_base::clients::places::Places;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::across_threads::SharedState;
use super::failure::Failure;
use super::slots::{Slot, Slots};

/// Time after which a request that waits looks which upstreams are in rotation.
const REVIEW: Duration = Duration::from_secs(1);

/// Queue of a pool, on all origin threads together.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Queue {
    /// Largest number of requests that wait.
    limit: u64,
    /// Longest time that a request waits.
    timeout: Duration,
    waiting: SharedState<Mutex<Places>>,
}

/// Place of a request in the queue, until it is dropped.
struct Place<'a> {
    waiting: &'a Mutex<Places>,
    client: ClientPrefix,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let waiting = self.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        waiting.give_back(self.client);
    }
}

/// An upstream's place in its pool, and the wait for one of its slots.
type Wait<'a> = (usize, Pin<Box<dyn Future<Output = Slot> + 'a>>);

impl Queue {
    pub(super) fn new(limit: u64, timeout: Duration) -> Queue {
        Queue { limit, timeout, waiting: SharedState::new(Mutex::new(Places::new(limit))) }
    }

    /// Waits for a slot of one of the upstreams that `allowed` names, for a client. Returns the upstream's place, and the slot.
    ///
    /// # Errors
    /// [`Failure::QueueFull`] at once, or [`Failure::QueueTimeout`] later.
    pub(super) async fn wait<'a>(
        &self,
        client: ClientPrefix,
        allowed: impl Fn() -> Vec<(usize, &'a Slots)>,
    ) -> Result<(usize, Slot), Failure> {
        let _place = self.enter(client).ok_or(Failure::QueueFull)?;
        let first = first_slot(client, allowed);
        let first = timeout(self.timeout, first).await;
        first.map_err(|_| Failure::QueueTimeout)
    }

    fn enter(&self, client: ClientPrefix) -> Option<Place<'_>> {
        let waiting = self.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        waiting.take(client).then(|| Place { waiting: &self.waiting, client })
    }
}

/// Waits for the first slot. Upstreams that come into rotation meanwhile are waited for, too, and those that leave it are not.
async fn first_slot<'a>(
    client: ClientPrefix,
    allowed: impl Fn() -> Vec<(usize, &'a Slots)>,
) -> (usize, Slot) {
    let mut waits: Vec<Wait<'a>> = Vec::new();
    let mut review = interval_at(Instant::now() + REVIEW, REVIEW);
    review.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let allowed = allowed();
        waits.retain(|(known, _)| allowed.iter().any(|(place, _)| place == known));
        for (place, slots) in allowed {
            if waits.iter().all(|(known, _)| *known != place) {
                waits.push((place, Box::pin(slots.take(client))));
            }
        }
        let first = std::future::poll_fn(|cx| {
            for (place, wait) in &mut waits {
                if let Poll::Ready(slot) = wait.as_mut().poll(cx) {
                    return Poll::Ready(Some((*place, slot)));
                }
            }
            review.poll_tick(cx).map(|_| None)
        });
        if let Some(first) = first.await {
            return first;
        }
    }
}
