//! A stateless packet that waits.

use sluicegate_dataplane::{ListenerId, TxMeta};

/// A stateless packet that waits to be sent.
pub(super) struct StatelessPacket {
    pub(super) listener: ListenerId,
    pub(super) meta: TxMeta,
    pub(super) bytes: Vec<u8>,
}
