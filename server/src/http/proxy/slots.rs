//! Bounds the requests that an upstream handles at a time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::http::clients::shared_room::leaves_room;
use crate::http::clients::{ClientPrefix, Clients};

/// Slots for the requests of one upstream, from all origin threads.
#[derive(Debug)]
pub(super) struct Slots(Option<Arc<Bounded>>);

/// Slot of a request, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot(Option<(Arc<Bounded>, ClientPrefix)>);

#[derive(Debug)]
struct Bounded {
    count: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: u64,
    by_client: Clients,
    waiting: HashMap<ClientPrefix, VecDeque<Waiter>>,
    /// Clients that wait, in the order in which they get slots: by what they have, then by arrival.
    order: BTreeSet<(u64, u64, ClientPrefix)>,
    arrivals: u64,
}

/// A request that waits for a slot.
#[derive(Debug)]
struct Waiter {
    arrival: u64,
    sender: oneshot::Sender<Slot>,
}

/// A request's place among those that wait, until it is dropped.
struct Place<'a> {
    bounded: &'a Bounded,
    client: ClientPrefix,
    arrival: u64,
}

impl Slots {
    /// Returns `count` slots; 0 stands for no limit.
    pub(super) fn new(count: u64) -> Slots {
        let bounded = || Bounded {
            count,
            state: Mutex::default(),
        };
        Slots((count > 0).then(|| Arc::new(bounded())))
    }

    /// Returns whether a client may have a slot at once.
    pub(super) fn has_room(&self, client: ClientPrefix) -> bool {
        match &self.0 {
            Some(bounded) => bounded.state().may_take(client, bounded.count),
            None => true,
        }
    }

    /// Returns a slot if the client may have one at once.
    pub(super) fn try_take(&self, client: ClientPrefix) -> Option<Slot> {
        let Some(bounded) = &self.0 else {
            return Some(Slot(None));
        };
        let mut state = bounded.state();
        let may_take = state.may_take(client, bounded.count);
        may_take.then(|| {
            state.take(client);
            Slot(Some((Arc::clone(bounded), client)))
        })
    }

    /// Waits for a slot. The client that has fewest gets the next one, and its requests in the order in which they began to wait.
    pub(super) async fn take(&self, client: ClientPrefix) -> Slot {
        let Some(bounded) = &self.0 else {
            return Slot(None);
        };
        let (sender, receiver) = oneshot::channel();
        let _place = {
            let mut state = bounded.state();
            if state.may_take(client, bounded.count) {
                state.take(client);
                return Slot(Some((Arc::clone(bounded), client)));
            }
            Place {
                bounded,
                client,
                arrival: state.enter(client, sender),
            }
        };
        // The sender is dropped with the place alone, which this future holds.
        receiver.await.unwrap_or(Slot(None))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some((bounded, client)) = self.0.take() {
            bounded.state().give_back(client);
            Bounded::hand_out(&bounded);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.bounded.state().leave(self.client, self.arrival);
    }
}

impl Bounded {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives free slots to those that wait.
    fn hand_out(bounded: &Arc<Bounded>) {
        loop {
            let next = bounded.state().next(bounded.count);
            let Some((client, sender)) = next else {
                return;
            };
            // A request that has gone meanwhile leaves it to the next one.
            if let Err(mut unwanted) = sender.send(Slot(Some((Arc::clone(bounded), client)))) {
                unwanted.0 = None;
                bounded.state().give_back(client);
            }
        }
    }
}

impl State {
    /// Returns whether a client may have another slot of `count`.
    fn may_take(&self, client: ClientPrefix, count: u64) -> bool {
        let taken = self.taken + 1;
        taken <= count && leaves_room(self.by_client.open(client) + 1, count - taken, count)
    }

    fn take(&mut self, client: ClientPrefix) {
        self.taken += 1;
        self.reordered(client, |state| state.by_client.enter(client));
    }

    fn give_back(&mut self, client: ClientPrefix) {
        self.taken -= 1;
        self.reordered(client, |state| state.by_client.leave(client));
    }

    /// Begins to wait. Returns when the request arrived.
    fn enter(&mut self, client: ClientPrefix, sender: oneshot::Sender<Slot>) -> u64 {
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.reordered(client, |state| {
            let waiting = state.waiting.entry(client).or_default();
            waiting.push_back(Waiter { arrival, sender });
        });
        arrival
    }

    /// Ends the wait of a request, unless it has a slot.
    fn leave(&mut self, client: ClientPrefix, arrival: u64) {
        self.reordered(client, |state| {
            if let Some(waiting) = state.waiting.get_mut(&client) {
                waiting.retain(|waiter| waiter.arrival != arrival);
            }
        });
    }

    /// Takes a slot for the next one that waits.
    fn next(&mut self, count: u64) -> Option<(ClientPrefix, oneshot::Sender<Slot>)> {
        let (_, _, client) = *self.order.first()?;
        if !self.may_take(client, count) {
            return None;
        }
        let waiter = self.reordered(client, |state| state.waiting.get_mut(&client)?.pop_front())?;
        self.take(client);
        Some((client, waiter.sender))
    }

    /// Changes what a client has, or who waits for it, and its place in the order.
    fn reordered<T>(&mut self, client: ClientPrefix, change: impl FnOnce(&mut State) -> T) -> T {
        if let Some(key) = self.key(client) {
            self.order.remove(&key);
        }
        let result = change(self);
        match self.key(client) {
            Some(key) => {
                self.order.insert(key);
            }
            None => {
                self.waiting.remove(&client);
            }
        }
        result
    }

    fn key(&self, client: ClientPrefix) -> Option<(u64, u64, ClientPrefix)> {
        let first = self.waiting.get(&client)?.front()?;
        Some((self.by_client.open(client), first.arrival, client))
    }
}

#[cfg(test)]
mod tests;
