//! Files that are open while they are sent, and the clients that hold them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use sluicegate_base::clients::{ClientPrefix, Clients};

/// Bound on open files. Once it is reached, the client that holds the most gives way to every client that would hold less:
/// its oldest response is ended.
#[derive(Debug)]
pub(super) struct OpenFiles {
    free: Arc<Semaphore>,
    holders: RefCell<Holders>,
}

#[derive(Debug, Default)]
struct Holders {
    /// Responses whose file is open and that were not asked to end, by client and number: of each client the oldest first.
    responses: BTreeMap<(ClientPrefix, u64), Rc<Notify>>,
    /// Numbers of these responses, and of those that wait for a revoked place.
    clients: Clients,
    /// The same of those clients alone that have such a response: others wait with all that they have.
    revocable: Clients,
    last: u64,
}

/// Counts a response among those of its client while it waits for a revoked place.
#[derive(Debug)]
struct Waiting {
    files: Rc<OpenFiles>,
    client: ClientPrefix,
}

/// A response's place among the open files. The file itself holds the permit, for a read that outlives the response.
#[derive(Debug)]
pub(super) struct Place {
    files: Rc<OpenFiles>,
    key: (ClientPrefix, u64),
    revoked: Rc<Notify>,
}

impl OpenFiles {
    /// Returns a bound of `count` files.
    pub(super) fn new(count: usize) -> Rc<OpenFiles> {
        Rc::new(OpenFiles {
            free: Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS))),
            holders: RefCell::default(),
        })
    }

    /// Returns a place for a file of `client`, perhaps in exchange for another client's; `None` if no client holds more files than
    /// this one would.
    pub(super) async fn open(
        self: &Rc<Self>,
        client: ClientPrefix,
    ) -> Option<(OwnedSemaphorePermit, Place)> {
        let free = Arc::clone(&self.free);
        let permit = match Arc::clone(&free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.holders.borrow_mut().revoke_for(client)?;
                // Each revoked place makes room for one response that waits here.
                let waiting = Waiting::new(self, client);
                let permit = free.acquire_owned().await.ok()?;
                drop(waiting);
                permit
            }
        };
        let mut holders = self.holders.borrow_mut();
        holders.last += 1;
        let (number, revoked) = (holders.last, Rc::new(Notify::new()));
        holders.responses.insert((client, number), Rc::clone(&revoked));
        holders.enter(client);
        let files = Rc::clone(self);
        let place = Place { files, key: (client, number), revoked };
        Some((permit, place))
    }

    /// Returns how many more files may be opened.
    #[cfg(test)]
    pub(super) fn available_permits(&self) -> usize {
        self.free.available_permits()
    }
}

impl Holders {
    /// Asks the oldest response of the client that holds the most to end, if `client` would hold less.
    fn revoke_for(&mut self, client: ClientPrefix) -> Option<()> {
        let (holder, most) = self.revocable.most()?;
        if most <= self.clients.open(client) + 1 {
            return None;
        }
        let oldest = self.oldest(holder)?;
        self.remove(oldest)?.notify_one();
        Some(())
    }

    /// Returns the key of a client's oldest response.
    fn oldest(&self, client: ClientPrefix) -> Option<(ClientPrefix, u64)> {
        let (oldest, _) = self.responses.range((client, 0)..).next()?;
        (oldest.0 == client).then_some(*oldest)
    }

    fn remove(&mut self, key: (ClientPrefix, u64)) -> Option<Rc<Notify>> {
        let revoked = self.responses.remove(&key)?;
        self.leave(key.0);
        Some(revoked)
    }

    /// Counts a response of `client`, after it was added if its file is open.
    fn enter(&mut self, client: ClientPrefix) {
        self.clients.enter(client);
        self.update(client);
    }

    /// Counts a response as gone, after it was removed.
    fn leave(&mut self, client: ClientPrefix) {
        self.clients.leave(client);
        self.update(client);
    }

    fn update(&mut self, client: ClientPrefix) {
        let amount = match self.oldest(client) {
            Some(_) => self.clients.open(client),
            None => 0,
        };
        self.revocable.set(client, amount);
    }
}

impl Waiting {
    fn new(files: &Rc<OpenFiles>, client: ClientPrefix) -> Waiting {
        files.holders.borrow_mut().enter(client);
        Waiting { files: Rc::clone(files), client }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.files.holders.borrow_mut().leave(self.client);
    }
}

impl Place {
    /// Waits until the file is to be closed in favour of another client.
    pub(super) async fn revoked(&self) {
        self.revoked.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.files.holders.borrow_mut().remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use sluicegate_base::address::ValidatedAddress;

    type Opening = Pin<Box<dyn Future<Output = Option<(OwnedSemaphorePermit, Place)>>>>;

    fn begin(
        files: &Rc<OpenFiles>,
        client: u8,
    ) -> (Opening, Poll<Option<(OwnedSemaphorePermit, Place)>>) {
        let files = Rc::clone(files);
        let client = ClientPrefix::from(ValidatedAddress::from(IpAddr::from([192, 0, 2, client])));
        let mut opening: Opening = Box::pin(async move { files.open(client).await });
        let polled = opening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        (opening, polled)
    }

    #[test]
    fn a_burst_of_a_client_with_no_file_ends_no_more_than_makes_parts_equal() {
        let files = OpenFiles::new(8);
        let held: Vec<_> = (0..8).map(|_| begin(&files, 1).1).collect();
        assert!(held.iter().all(|polled| matches!(polled, Poll::Ready(Some(_)))));
        let burst: Vec<_> = (0..8).map(|_| begin(&files, 2)).collect();
        let waiting = burst.iter().filter(|(_, polled)| polled.is_pending());
        assert_eq!((waiting.count(), files.holders.borrow().responses.len()), (4, 4));
        // One that waits for a revoked place has its part, too.
        let (third, polled) = begin(&files, 3);
        assert!(polled.is_pending());
        drop((burst, third));
        assert_eq!(files.holders.borrow().clients.len(), 1);
        drop(held);
        assert_eq!(files.holders.borrow().clients.len(), 0);
        assert_eq!(files.available_permits(), 8);
    }

    #[test]
    fn who_only_waits_gives_no_place_and_protects_nobody() {
        let files = OpenFiles::new(4);
        let _held: Vec<_> = (0..4).map(|_| begin(&files, 1).1).collect();
        let _second: Vec<_> = (0..2).map(|_| begin(&files, 2)).collect();
        // Two places are revoked, but their files are not closed yet; those that wait for them hold nothing to revoke.
        assert_eq!(files.holders.borrow().responses.len(), 2);
        let third: Vec<_> = (0..2).map(|_| begin(&files, 3)).collect();
        let pending: Vec<_> = third.iter().map(|(_, polled)| polled.is_pending()).collect();
        assert_eq!(pending, [true, false]);
        assert_eq!(files.holders.borrow().responses.len(), 1);
        assert_eq!(files.holders.borrow().revocable.len(), 1);
    }
}
