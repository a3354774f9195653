//! Memory for request bodies that wait for a script. It is never full, so however many clients fill it, another one gets a part.

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::clients::ClientPrefix;
use sluicegate_base::clients::shared_room::SharedRoom;

/// Room of a thread for bodies, bytes.
const ROOM: u64 = 16 << 20;

/// Counts the bytes that a thread keeps of bodies.
#[derive(Debug, Default)]
pub struct BodyBuffers(SharedRoom);

/// Bytes that one request keeps, until it is dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    buffers: &'a BodyBuffers,
    client: ClientPrefix,
    bytes: u64,
}

impl BodyBuffers {
    /// Returns room for a body of a client, without a byte.
    pub(super) fn begin(&self, client: ValidatedAddress) -> Held<'_> {
        Held { buffers: self, client: client.into(), bytes: 0 }
    }
}

impl Held<'_> {
    /// Takes room for more bytes, if the client may hold as much.
    pub(super) fn grow(&mut self, more: usize) -> bool {
        let more = more as u64;
        let fits = self.buffers.0.take(self.client, more, ROOM, 0);
        if fits {
            self.bytes += more;
        }
        fits
    }

    /// Returns the room of bytes that have left the memory, at most all that this value holds.
    pub(super) fn shrink(&mut self, less: usize) {
        let less = self.bytes.min(less as u64);
        self.bytes -= less;
        self.buffers.0.give_back(self.client, less);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.shrink(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ValidatedAddress {
        address.parse().unwrap()
    }

    #[test]
    fn a_client_holds_no_more_than_it_leaves_free() {
        let buffers = BodyBuffers::default();
        let mut one = buffers.begin(client("192.0.2.1:1"));
        let mut same = buffers.begin(client("192.0.2.1:2"));
        assert!(one.grow(4 << 20) && same.grow(4 << 20));
        assert!(!one.grow(1) && !same.grow(1) && same.grow(0));
        // Others get less and less, but none gets nothing.
        let mut others = Vec::new();
        for host in 2..8 {
            let mut other = buffers.begin(client(&format!("192.0.2.{host}:1")));
            assert!(other.grow(32 << 10), "{host}");
            while other.grow(16 << 10) {}
            others.push(other);
        }
        one.shrink(2 << 20);
        assert!(!one.grow(2 << 20));
        others.clear();
        assert!(one.grow(2 << 20));
        one.shrink(usize::MAX);
        assert!(one.grow(4 << 20));
        drop((one, same));
        assert_eq!((buffers.0.taken(), buffers.0.clients()), (0, 0));
    }
}
