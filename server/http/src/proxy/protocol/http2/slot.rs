//! Place of an exchange on an HTTP/2 connection, with the sender of its stream.

use bytes::Bytes;
use h2::client::SendRequest;

use crate::proxy::protocol::usage::Place;

/// Place of one exchange on a connection.
pub(super) struct StreamSlot {
    sender: SendRequest<Bytes>,
    place: Place,
}

impl StreamSlot {
    /// Returns the place of an exchange whose stream `sender` opens.
    pub(super) fn new(sender: SendRequest<Bytes>, place: Place) -> StreamSlot {
        StreamSlot { sender, place }
    }

    /// The sender that opens the exchange's stream.
    pub(super) fn sender(&mut self) -> &mut SendRequest<Bytes> {
        &mut self.sender
    }

    /// Whether the upstream takes extended CONNECT (RFC 8441 §3).
    pub(super) fn takes_tunnels(&self) -> bool {
        self.sender.is_extended_connect_protocol_enabled()
    }

    /// Whether no other exchange has used the connection before.
    pub(super) fn is_first(&self) -> bool {
        self.place.is_first()
    }
}
