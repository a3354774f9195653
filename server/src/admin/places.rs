//! Places of connections: which one gives way when there are too many.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Places for connections.
#[derive(Clone, Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    size: usize,
    silent: Arc<Silent>,
}

/// Connections that have not sent a request yet, the oldest first.
#[derive(Debug, Default)]
struct Silent(Mutex<VecDeque<Arc<Notify>>>);

/// Place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
    needed: Arc<Notify>,
    silent: Arc<Silent>,
}

impl Silent {
    fn with<T>(&self, change: impl FnOnce(&mut VecDeque<Arc<Notify>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn remove(&self, one: &Arc<Notify>) {
        self.with(|all| all.retain(|other| !Arc::ptr_eq(one, other)));
    }
}

impl Places {
    pub(super) fn new(size: usize) -> Places {
        Places { free: Arc::new(Semaphore::new(size)), size, silent: Arc::default() }
    }

    /// Returns a place for a connection. If there is none, the connection that has been silent for longest gives up its own; if none is
    /// silent, the first that ends.
    pub(super) async fn take(&self) -> Place {
        if self.free.available_permits() == 0
            && let Some(oldest) = self.silent.with(VecDeque::pop_front)
        {
            oldest.notify_one();
        }
        // The semaphore is never closed.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok();
        let needed = Arc::new(Notify::new());
        self.silent.with(|all| all.push_back(Arc::clone(&needed)));
        Place { _permit: permit, needed, silent: Arc::clone(&self.silent) }
    }

    /// Waits until all places are free.
    pub(super) async fn all(&self) {
        let all = u32::try_from(self.size).unwrap_or(u32::MAX);
        let _ = self.free.acquire_many(all).await;
    }
}

impl Place {
    /// Notes that the connection has sent a request, and keeps its place.
    pub(super) fn on_request(&self) {
        self.silent.remove(&self.needed);
    }

    /// Waits until another connection needs the place.
    pub(super) async fn is_needed(&self) {
        self.needed.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.silent.remove(&self.needed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn at_once<F: Future>(future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn the_connection_that_is_silent_for_longest_gives_way() {
        let places = Places::new(3);
        let (first, second, third) =
            (places.take().await, places.take().await, places.take().await);
        second.on_request();
        assert!(at_once(first.is_needed()).await.is_none());
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.take().await }
        });
        first.is_needed().await;
        drop(first);
        let fourth = waiting.await.unwrap();
        // One that has sent its request stays.
        assert!(at_once(second.is_needed()).await.is_none());
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.take().await }
        });
        third.is_needed().await;
        drop(third);
        let fifth = waiting.await.unwrap();
        fourth.on_request();
        fifth.on_request();
        // Without a silent one, the next waits.
        assert!(at_once(places.take()).await.is_none());
        drop(second);
        let sixth = places.take().await;
        drop((fourth, fifth, sixth));
        places.all().await;
        assert!(places.silent.with(|all| all.is_empty()));
    }
}
