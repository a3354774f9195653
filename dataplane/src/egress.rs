//! The transmit side of the contract: room for one datagram after the other.

use crate::meta::{ListenerId, TxMeta};

/// Room for datagrams to send, lent to the closure of [`Dataplane::transmit`](crate::Dataplane::transmit).
///
/// The caller writes one datagram at a time and knows nothing of batches. A backend that segments (GSO) lays the rooms
/// of a listener out one behind the other and sends neighbours of equal size to the same peer as one batch: a shorter
/// datagram ends the batch, a longer one or another peer opens the next, and no byte is copied for it. Other backends
/// lend a device buffer per datagram.
pub trait Egress {
    /// Returns room for one datagram of up to `size` bytes, which leaves by `listener`. Room that is not committed is
    /// returned again by the next call.
    ///
    /// The room is exactly `size` bytes long, or as long as the largest datagram of the backend where that is less.
    ///
    /// # Errors
    /// See [`NoRoom`].
    fn room(&mut self, listener: ListenerId, size: usize) -> Result<&mut [u8], NoRoom>;

    /// Takes the first `len` bytes of the room returned last as one datagram and spends the budget.
    ///
    /// It is sent at once or together with later ones, at the latest with the next
    /// [`Dataplane::wait`](crate::Dataplane::wait).
    fn commit(&mut self, len: usize, meta: &TxMeta);
}

/// Reason for which there is no room for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The budget of this transmission is spent: go on in the next turn.
    Budget,
    /// The kernel or device takes no more for this listener: go on with others, and with this one after the next wait.
    Blocked,
    /// The driver has no such listener.
    Unknown,
}
