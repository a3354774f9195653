//! Files that are open while they are sent, and the clients that hold them.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::http::clients::{ClientPrefix, Clients};

/// Bound on open files. Once it is reached, the client that holds the most gives way to every client that would hold less:
/// its oldest response is ended.
#[derive(Debug)]
pub(super) struct OpenFiles {
    free: Arc<Semaphore>,
    holders: RefCell<Holders>,
}

#[derive(Debug, Default)]
struct Holders {
    /// Responses whose file is open and that were not asked to end, by their numbers: the oldest first.
    responses: BTreeMap<u64, (ClientPrefix, Rc<Notify>)>,
    /// Numbers of these responses, and of those that wait for a revoked place.
    clients: Clients,
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
    number: u64,
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
        holders.clients.enter(client);
        holders
            .responses
            .insert(number, (client, Rc::clone(&revoked)));
        let files = Rc::clone(self);
        let place = Place {
            files,
            number,
            revoked,
        };
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
        let own = self.clients.open(client);
        if self.clients.most()?.1 <= own + 1 {
            return None;
        }
        // Those of the client that has the most may all be waiting.
        let holders = self.responses.iter();
        let counts = holders.map(|(number, (holder, _))| (self.clients.open(*holder), *number));
        let (count, number) = counts.max_by_key(|(count, number)| (*count, Reverse(*number)))?;
        if count <= own + 1 {
            return None;
        }
        if let Some(revoked) = self.remove(number) {
            revoked.notify_one();
        }
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<Rc<Notify>> {
        let (client, revoked) = self.responses.remove(&number)?;
        self.clients.leave(client);
        Some(revoked)
    }
}

impl Waiting {
    fn new(files: &Rc<OpenFiles>, client: ClientPrefix) -> Waiting {
        files.holders.borrow_mut().clients.enter(client);
        Waiting {
            files: Rc::clone(files),
            client,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.files.holders.borrow_mut().clients.leave(self.client);
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
        self.files.holders.borrow_mut().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Opening = Pin<Box<dyn Future<Output = Option<(OwnedSemaphorePermit, Place)>>>>;

    fn begin(
        files: &Rc<OpenFiles>,
        client: u8,
    ) -> (Opening, Poll<Option<(OwnedSemaphorePermit, Place)>>) {
        let files = Rc::clone(files);
        let client = ClientPrefix::V4([192, 0, 2, client].into());
        let mut opening: Opening = Box::pin(async move { files.open(client).await });
        let polled = opening
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        (opening, polled)
    }

    #[test]
    fn a_burst_of_a_client_with_no_file_ends_no_more_than_makes_parts_equal() {
        let files = OpenFiles::new(8);
        let held: Vec<_> = (0..8).map(|_| begin(&files, 1).1).collect();
        assert!(
            held.iter()
                .all(|polled| matches!(polled, Poll::Ready(Some(_))))
        );
        let burst: Vec<_> = (0..8).map(|_| begin(&files, 2)).collect();
        let waiting = burst.iter().filter(|(_, polled)| polled.is_pending());
        assert_eq!(
            (waiting.count(), files.holders.borrow().responses.len()),
            (4, 4)
        );
        // One that waits for a revoked place has its part, too.
        let (third, polled) = begin(&files, 3);
        assert!(polled.is_pending());
        drop((burst, third));
        assert_eq!(files.holders.borrow().clients.len(), 1);
        drop(held);
        assert_eq!(files.holders.borrow().clients.len(), 0);
        assert_eq!(files.available_permits(), 8);
    }
}
