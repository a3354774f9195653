//! Datagrams sent without a connection: Retry, version negotiation, stateless reset.

use sluicegate_dataplane::{ListenerId, TxMeta};

/// Number of such datagrams that may wait to be sent. Where so many wait no further one is made.
pub(super) const MAX_STATELESS: usize = 128;

/// A datagram that waits to be sent without a connection.
pub(super) struct Stateless {
    pub(super) listener: ListenerId,
    pub(super) meta: TxMeta,
    pub(super) bytes: Vec<u8>,
}
