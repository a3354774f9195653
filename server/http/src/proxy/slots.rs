//! Bounds the requests that an upstream handles at a time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use sluicegate_base::clients::ClientPrefix;
use sluicegate_base::clients::places::Places;

/// Slots for the requests of one upstream, from all origin threads.
#[derive(Debug)]
pub(super) struct Slots(Option<Arc<Bounded>>);

/// Slot of a request, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot(Option<(Arc<Bounded>, ClientPrefix)>);

/// Slots of which there are not as many as anybody wants.
#[derive(Debug)]
struct Bounded(Mutex<State>);

#[derive(Debug)]
struct State {
    places: Places,
    waiting: HashMap<ClientPrefix, Waiting>,
    /// Clients that wait, by their turns.
    turns: BTreeMap<u64, ClientPrefix>,
    /// Number of the next turn, or of the next request that waits.
    next: u64,
}

/// Requests of a client that wait.
#[derive(Debug)]
struct Waiting {
    turn: u64,
    requests: VecDeque<Waiter>,
}

/// A request that waits for a slot.
#[derive(Debug)]
struct Waiter {
    number: u64,
    sender: oneshot::Sender<Slot>,
}

/// Slot for a request that waits.
struct Grant {
    client: ClientPrefix,
    sender: oneshot::Sender<Slot>,
}

/// A request's place among those that wait, until it is dropped.
struct Place<'a> {
    bounded: &'a Bounded,
    client: ClientPrefix,
    number: u64,
}

impl Slots {
    /// Returns `count` slots; 0 stands for no limit.
    pub(super) fn new(count: u64) -> Slots {
        let state = || State {
            places: Places::new(count),
            waiting: HashMap::new(),
            turns: BTreeMap::new(),
            next: 0,
        };
        Slots((count > 0).then(|| Arc::new(Bounded(Mutex::new(state())))))
    }

    /// Returns whether a client may have a slot at once.
    pub(super) fn has_room(&self, client: ClientPrefix) -> bool {
        match &self.0 {
            Some(bounded) => bounded.state().places.has_room(client),
            None => true,
        }
    }

    /// Returns a slot if the client may have one at once.
    pub(super) fn try_take(&self, client: ClientPrefix) -> Option<Slot> {
        let Some(bounded) = &self.0 else {
            return Some(Slot(None));
        };
        let is_taken = bounded.state().places.take(client);
        is_taken.then(|| Slot(Some((Arc::clone(bounded), client))))
    }

    /// Waits for a slot. Clients take turns, so that none waits for more than one request of each other; a client's requests get slots in the
    /// order in which they began to wait.
    pub(super) async fn take(&self, client: ClientPrefix) -> Slot {
        let Some(bounded) = &self.0 else {
            return Slot(None);
        };
        let (sender, receiver) = oneshot::channel();
        let _place = {
            let mut state = bounded.state();
            if state.places.take(client) {
                return Slot(Some((Arc::clone(bounded), client)));
            }
            Place { bounded, client, number: state.enter(client, sender) }
        };
        // The sender is dropped with the place alone, which this future holds.
        receiver.await.unwrap_or(Slot(None))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some((bounded, client)) = self.0.take() {
            Bounded::give_back(&bounded, client);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.bounded.state().leave(self.client, self.number);
    }
}

impl Bounded {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot back, and gives what is free to those that wait.
    fn give_back(bounded: &Arc<Bounded>, client: ClientPrefix) {
        let mut returned = vec![client];
        while let Some(client) = returned.pop() {
            let grants = bounded.state().give_back(client);
            for Grant { client, sender } in grants {
                // A request that has gone meanwhile leaves it to the next one.
                if let Err(mut unwanted) = sender.send(Slot(Some((Arc::clone(bounded), client)))) {
                    unwanted.0 = None;
                    returned.push(client);
                }
            }
        }
    }
}

impl State {
    /// Takes a slot back. Returns those that go to requests which wait.
    fn give_back(&mut self, client: ClientPrefix) -> Vec<Grant> {
        self.places.give_back(client);
        std::iter::from_fn(|| self.grant()).collect()
    }

    /// Gives a slot to the first client in turn that may have another one.
    fn grant(&mut self) -> Option<Grant> {
        let mut clients = self.turns.values().copied();
        let client = clients.find(|client| self.places.has_room(*client))?;
        let waiting = self.waiting.get_mut(&client)?;
        let waiter = waiting.requests.pop_front()?;
        self.turns.remove(&waiting.turn);
        if waiting.requests.is_empty() {
            self.waiting.remove(&client);
        } else {
            waiting.turn = self.next;
            self.turns.insert(self.next, client);
            self.next += 1;
        }
        self.places.take(client);
        Some(Grant { client, sender: waiter.sender })
    }

    /// Begins to wait. Returns the request's number.
    fn enter(&mut self, client: ClientPrefix, sender: oneshot::Sender<Slot>) -> u64 {
        let number = self.next;
        self.next += 1;
        let waiting = self.waiting.entry(client).or_insert_with(|| {
            self.turns.insert(number, client);
            Waiting { turn: number, requests: VecDeque::new() }
        });
        waiting.requests.push_back(Waiter { number, sender });
        number
    }

    /// Ends the wait of a request, unless it has a slot.
    fn leave(&mut self, client: ClientPrefix, number: u64) {
        let Some(waiting) = self.waiting.get_mut(&client) else {
            return;
        };
        waiting.requests.retain(|waiter| waiter.number != number);
        if waiting.requests.is_empty() {
            self.turns.remove(&waiting.turn);
            self.waiting.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests;
