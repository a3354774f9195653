//! The layout of the connection IDs that Sluicegate chooses.
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | index of the worker that owns the connection; the socket steering program reads it |
//! | 1 | bits 7–6: layout version, 1; bits 5–0: generation of the process; the sockets' filter of Initials compares it |
//! | 2–15 | entropy |
//!
//! The generation tells an old process's connections from the new one's while both run. Nothing in the layout is
//! authenticated: a peer can write any worker and generation, so they choose where to look, never whom to trust.

use sluicegate_dataplane::{CidMark, Steering};

use super::header::MAX_V1_CID;
use crate::entropy::Entropy;
use crate::secrets::GENERATIONS;

/// Length of every connection ID of ours, in bytes.
pub const LEN: usize = 16;
const LEN_BYTE: u8 = 16;

/// How the kernel finds the worker. IDs that clients choose have at least 8 bytes, whose first one spreads them.
pub const STEERING: Steering = Steering::ConnectionId { worker_at: 0, shortest: 8 };

const LAYOUT_VERSION: u8 = 1;
const GENERATION_MASK: u8 = GENERATIONS - 1;

/// A connection ID of 1 to 20 bytes, ours or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// The ID, then zeros.
    bytes: [u8; MAX_V1_CID],
    len: u8,
}

impl ConnectionId {
    /// Returns the index of the owning worker, if it is ours.
    pub fn worker(self) -> u8 {
        self.bytes[0]
    }

    /// Returns the generation of the owning process, 0–63, if it is ours.
    pub fn generation(self) -> u8 {
        self.bytes[1] & GENERATION_MASK
    }

    /// Returns whether length and layout version are those written here. A client's own choice of that length passes one time in
    /// four.
    pub fn is_ours(self) -> bool {
        usize::from(self.len) == LEN && self.bytes[1] >> 6 == LAYOUT_VERSION
    }

    /// Returns whether it has our layout and was made by a process of `generation`.
    pub fn is_of(self, generation: u8) -> bool {
        self.is_ours() && self.generation() == generation & GENERATION_MASK
    }

    /// Returns the bytes as they go on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

impl<const N: usize> From<[u8; N]> for ConnectionId {
    fn from(id: [u8; N]) -> ConnectionId {
        const { assert!(1 <= N && N <= MAX_V1_CID) };
        ConnectionId::try_from(&id[..]).expect("the length is right")
    }
}

/// The length of a connection ID is not 1 to 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a connection ID has 1 to 20 bytes")]
pub struct CidLengthError;

impl TryFrom<&[u8]> for ConnectionId {
    type Error = CidLengthError;

    fn try_from(id: &[u8]) -> Result<ConnectionId, CidLengthError> {
        let mut bytes = [0; MAX_V1_CID];
        let place = bytes.get_mut(..id.len()).filter(|place| !place.is_empty());
        place.ok_or(CidLengthError)?.copy_from_slice(id);
        let len = u8::try_from(id.len()).map_err(|_| CidLengthError)?;
        Ok(ConnectionId { bytes, len })
    }
}

impl AsRef<[u8]> for ConnectionId {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Hexadecimal, as in logs and file names.
impl std::fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConnectionId({self})")
    }
}

/// Makes one worker's connection IDs.
#[derive(Debug)]
pub struct CidGenerator {
    worker: u8,
    generation: u8,
    entropy: Entropy,
}

impl CidGenerator {
    /// Returns a generator for `worker` of a process of `generation`, of which the low six bits count.
    pub fn new(worker: u8, generation: u8) -> CidGenerator {
        CidGenerator { worker, generation: generation & GENERATION_MASK, entropy: Entropy::new() }
    }

    /// Returns a connection ID never made before, by chance of 112 bits.
    pub fn generate(&mut self) -> ConnectionId {
        let mut bytes: [u8; LEN] = self.entropy.take();
        bytes[0] = self.worker;
        bytes[1] = self.layout_byte();
        bytes.into()
    }

    /// Returns the mark of its connection IDs: byte 1, which all workers of the process share.
    pub fn mark(&self) -> CidMark {
        CidMark { cid_len: LEN_BYTE, at: 1, value: self.layout_byte() }
    }

    fn layout_byte(&self) -> u8 {
        LAYOUT_VERSION << 6 | self.generation
    }

    /// Returns the worker whose IDs these are.
    pub fn worker(&self) -> u8 {
        self.worker
    }

    /// Returns the process generation in them.
    pub fn generation(&self) -> u8 {
        self.generation
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn fields_stand_where_the_table_says() {
        let generator = &mut CidGenerator::new(7, 35);
        let id = generator.generate();
        assert_eq!(id.as_bytes()[..2], [7, 0b0110_0011]);
        assert!(generator.mark().is_on(id.as_bytes()));
        assert_eq!((id.worker(), id.generation()), (7, 35));
        assert!(id.is_ours() && id.is_of(35) && !id.is_of(34));
    }

    #[test]
    fn every_worker_and_generation_comes_back() {
        for worker in 0..=255 {
            for generation in 0..GENERATIONS {
                let id = CidGenerator::new(worker, generation).generate();
                assert_eq!((id.worker(), id.generation()), (worker, generation));
                assert!(id.is_of(generation));
            }
        }
    }

    #[test]
    fn a_generation_out_of_range_wraps_and_leaves_the_version_alone() {
        let mut generator = CidGenerator::new(0, 64 + 5);
        assert_eq!(generator.generation(), 5);
        let id = generator.generate();
        assert!(id.is_of(5) && id.is_of(64 + 5));
    }

    #[test]
    fn other_layout_versions_are_not_ours() {
        for top in [0b0000_0000, 0b1000_0000, 0b1100_0000] {
            let mut bytes = [0; LEN];
            bytes[1] = top;
            assert!(!ConnectionId::from(bytes).is_ours());
            assert!(!ConnectionId::from(bytes).is_of(0));
        }
    }

    #[test]
    fn no_two_are_alike_and_every_entropy_byte_varies() {
        let mut generator = CidGenerator::new(1, 2);
        let ids: HashSet<ConnectionId> = (0..10_000).map(|_| generator.generate()).collect();
        assert_eq!(ids.len(), 10_000);
        for position in 2..LEN {
            let values: HashSet<u8> = ids.iter().map(|id| id.as_bytes()[position]).collect();
            assert_eq!(values.len(), 256, "byte {position}");
        }
    }

    #[test]
    fn one_to_twenty_bytes_are_an_id() {
        for len in 0..=40 {
            let bytes = vec![0xab; len];
            let id = ConnectionId::try_from(&bytes[..]);
            assert_eq!(id.is_ok(), (1..=20).contains(&len), "{len} bytes");
            if let Ok(id) = id {
                assert_eq!(id.as_bytes(), bytes);
                assert_eq!(id.to_string(), "ab".repeat(len));
            }
        }
        assert_eq!(ConnectionId::from([7; 3]).as_bytes(), [7; 3]);
        assert_ne!(ConnectionId::from([0; 3]), ConnectionId::from([0; 4]));
    }
}
