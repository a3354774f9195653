//! The scheme of a server by itself: nobody in front of it routes by connection ID.

use sluicegate_base::entropy::Entropy;
use sluicegate_dataplane::{CidMark, Steering};

use super::connection_id::ConnectionId;
use super::layout::Layout;
use super::scheme::{CidScheme, Owner};

const LAYOUT: Layout = Layout::PLAIN;

/// The scheme of a server by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain;

impl CidScheme for Plain {
    fn cid_len(&self) -> usize {
        LAYOUT.len()
    }

    fn generate(&mut self, worker: u8, generation: u8, entropy: &mut Entropy) -> ConnectionId {
        let mut bytes: [u8; 16] = entropy.take();
        LAYOUT.write(&mut bytes, worker, generation);
        bytes.into()
    }

    fn owner(&mut self, cid: &[u8]) -> Owner {
        LAYOUT.owner(cid)
    }

    fn steering(&self) -> Steering {
        LAYOUT.steering()
    }

    fn mark(&self, generation: u8) -> Option<CidMark> {
        LAYOUT.mark(generation)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn generate(worker: u8, generation: u8) -> ConnectionId {
        Plain.generate(worker, generation, &mut Entropy::new())
    }

    #[test]
    fn fields_stand_where_the_table_says() {
        let id = generate(7, 35);
        assert_eq!(id.as_bytes().len(), 16);
        assert_eq!(id.as_bytes()[..2], [7, 0b0110_0011]);
        let mark = CidMark { cid_len: 16, at: 1, value: 0b0110_0011 };
        assert_eq!(Plain.mark(35), Some(mark));
        assert_eq!({ Plain }.owner(id.as_bytes()), Owner::Ours { worker: 7, generation: 35 });
        assert_eq!(Plain.steering(), Steering::ConnectionId { worker_at: 0, shortest: 8 });
    }

    #[test]
    fn a_generation_out_of_range_wraps_and_leaves_the_version_alone() {
        let id = generate(0, 64 + 5);
        assert_eq!({ Plain }.owner(id.as_bytes()), Owner::Ours { worker: 0, generation: 5 });
        assert_eq!(Plain.mark(64 + 5), Plain.mark(5));
    }

    #[test]
    fn other_layout_versions_and_lengths_are_not_ours() {
        let mut bytes = [0; 20];
        for top in [0b0000_0000, 0b1000_0000, 0b1100_0000] {
            bytes[1] = top;
            assert_eq!({ Plain }.owner(&bytes[..16]), Owner::Foreign);
        }
        bytes[1] = 0b0100_0000;
        for len in 0..=20 {
            let is_ours = { Plain }.owner(&bytes[..len]) != Owner::Foreign;
            assert_eq!(is_ours, len == 16, "{len} bytes");
        }
    }

    #[test]
    fn no_two_are_alike_and_every_entropy_byte_varies() {
        let entropy = &mut Entropy::new();
        let ids: HashSet<ConnectionId> =
            (0..10_000).map(|_| Plain.generate(1, 2, entropy)).collect();
        assert_eq!(ids.len(), 10_000);
        for position in 2..16 {
            let values: HashSet<u8> = ids.iter().map(|id| id.as_bytes()[position]).collect();
            assert_eq!(values.len(), 256, "byte {position}");
        }
    }
}
