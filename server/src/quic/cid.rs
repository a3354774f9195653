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

use crate::entropy::Entropy;
use crate::secrets::GENERATIONS;

/// Length of every connection ID of ours, in bytes.
pub const LEN: usize = 16;
const LEN_BYTE: u8 = 16;

/// How the kernel finds the worker. IDs that clients choose have at least 8 bytes, whose first one spreads them.
pub const STEERING: Steering = Steering::ConnectionId { worker_at: 0, shortest: 8 };

const LAYOUT_VERSION: u8 = 1;
const GENERATION_MASK: u8 = GENERATIONS - 1;

/// A connection ID of the length that Sluicegate chooses, its own or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId([u8; LEN]);

impl ConnectionId {
    /// Returns the index of the owning worker, if it is ours.
    pub fn worker(self) -> u8 {
        self.0[0]
    }

    /// Returns the generation of the owning process, 0–63, if it is ours.
    pub fn generation(self) -> u8 {
        self.0[1] & GENERATION_MASK
    }

    /// Returns whether the layout version is the one written here. A client's own choice passes one time in four.
    pub fn is_ours(self) -> bool {
        self.0[1] >> 6 == LAYOUT_VERSION
    }

    /// Returns whether it has our layout and was made by a process of `generation`.
    pub fn is_of(self, generation: u8) -> bool {
        self.is_ours() && self.generation() == generation & GENERATION_MASK
    }

    /// Returns the bytes as they go on the wire.
    pub fn as_bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl From<[u8; LEN]> for ConnectionId {
    fn from(bytes: [u8; LEN]) -> ConnectionId {
        ConnectionId(bytes)
    }
}

/// Fails where the length is another than [`LEN`].
impl TryFrom<&[u8]> for ConnectionId {
    type Error = std::array::TryFromSliceError;

    fn try_from(bytes: &[u8]) -> Result<ConnectionId, Self::Error> {
        bytes.try_into().map(ConnectionId)
    }
}

impl AsRef<[u8]> for ConnectionId {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Hexadecimal, as in logs and file names.
impl std::fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
        ConnectionId(bytes)
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
    fn only_the_right_length_converts() {
        assert!(ConnectionId::try_from([0; 15].as_slice()).is_err());
        assert!(ConnectionId::try_from([0; 17].as_slice()).is_err());
        let id = ConnectionId::try_from([0xab; 16].as_slice()).unwrap();
        assert_eq!(id.to_string(), "ab".repeat(16));
    }
}
