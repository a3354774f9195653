//! The contract of a scheme of connection IDs.

use sluicegate_base::entropy::Entropy;
use sluicegate_dataplane::{CidMark, Steering};

use super::connection_id::ConnectionId;

/// Maker of a connection ID, as far as its bytes tell.
///
/// Nothing is authenticated: a peer can write any worker and generation, so they choose where to look, never whom to trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A process of this server.
    Ours {
        /// Index of the worker. There may be no such worker.
        worker: u8,
        /// Generation of the process. It tells an old process's connections from the new one's while both run.
        generation: u8,
    },
    /// Somebody else, such as a client for its first packet.
    Foreign,
}

/// Purpose of a new ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CidPurpose {
    /// A connection, as its first ID or as a spare one.
    Connection,
    /// A Retry: an unproved client may then have a connection under it, or forget it.
    Retry,
    /// A refusal, to which no client replies.
    Refusal,
}

/// Scheme of connection IDs: what the server writes into its IDs, and how it reads them.
///
/// Length, steering and mark never change, and are the same for all workers of a process. An ID that one worker makes, every
/// worker reads, in the processes of other generations too.
pub trait CidScheme: Send {
    /// Returns the length of every ID, 1 to 20 bytes. The endpoint asks once: a short header does not tell the length.
    fn cid_len(&self) -> usize;

    /// Makes an ID of `worker` in a process of `generation` (0–63), never made before. The endpoint calls it for each connection,
    /// and for each spare ID of a connection. The IDs of a connection must not tell observers more
    /// about each other than the worker (RFC 9000 §5.1).
    fn generate(&mut self, worker: u8, generation: u8, entropy: &mut Entropy) -> ConnectionId;

    /// Makes an ID for a purpose. Strangers can have any number of Retry packets and refusals made: a scheme whose IDs are limited
    /// saves on them.
    fn generate_for(
        &mut self,
        _purpose: CidPurpose,
        worker: u8,
        generation: u8,
        entropy: &mut Entropy,
    ) -> ConnectionId {
        self.generate(worker, generation, entropy)
    }

    /// Reads who made an ID of any length. The endpoint asks only about datagrams that belong to none of its connections. All IDs
    /// that [`generate`](Self::generate) makes are recognised, and by chance some that clients choose.
    fn owner(&mut self, cid: &[u8]) -> Owner;

    /// Returns how the kernel finds the worker of a datagram. [`Steering::Hash`] if only [`owner`](Self::owner) can read it:
    /// workers then pass each other's datagrams on.
    fn steering(&self) -> Steering;

    /// Returns the mark of the IDs of a process, for the kernel's filter of Initials; `None` if they have no byte in common. Then
    /// the filter cannot prefer clients that come back after a Retry.
    fn mark(&self, generation: u8) -> Option<CidMark>;

    /// Returns whether clients get spare IDs, with which they can move a connection to another address. The endpoint asks once.
    fn gives_spares(&self) -> bool {
        true
    }
}

/// Makes an ID of `len` random bytes, 20 at most, over some of which `write` writes.
pub(super) fn random_id(
    len: usize,
    entropy: &mut Entropy,
    write: impl FnOnce(&mut [u8]),
) -> ConnectionId {
    let mut id = ConnectionId::zeros(len);
    entropy.fill(id.as_mut());
    write(id.as_mut());
    id
}
