//! Files that are open while they are sent, and the clients that hold them.

use std::cell::RefCell;
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
    clients: Clients,
    last: u64,
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
                free.acquire_owned().await.ok()?
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
        let (most_greedy, count) = self.clients.most()?;
        if count <= self.clients.open(client) + 1 {
            return None;
        }
        let mut responses = self.responses.iter();
        let (number, _) = responses.find(|(_, (holder, _))| *holder == most_greedy)?;
        let number = *number;
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
