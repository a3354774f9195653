//! Places of the bytes of an ID that the server itself reads.
//!
//! | bytes | meaning |
//! |---|---|
//! | before `worker_at` | routing part, for a load balancer; none in the IDs of a server by itself |
//! | `worker_at` | index of the worker that owns the connection; the kernel's steering program reads it |
//! | `worker_at` + 1 | bits 7–6: layout version, 1; bits 5–0: generation of the process; the kernel's filter of Initials compares it |
//! | behind | entropy |
//!
//! These two bytes are in the clear, because the kernel has no key, and classic BPF needs no privilege. They stand at one place in all IDs of a
//! process: a datagram with a short header does not tell the length of its ID, and the program does not read the routing part.

use sluicegate_base::secrets::GENERATIONS;
use sluicegate_dataplane::{CidMark, Steering};

use super::connection_id::MAX_V1_CID;
use super::scheme::Owner;

const LAYOUT_VERSION: u8 = 1;
const GENERATION_MASK: u8 = GENERATIONS - 1;
/// Worker and generation.
const OWN: usize = 2;
/// Length of an ID that has room for it.
const USUAL_LEN: usize = 16;
/// Random bytes of an ID that has room for them: IDs of a server then never meet.
const USUAL_ENTROPY: usize = 8;
/// Length of the shortest ID that a client chooses (RFC 9000 §7.2).
const MIN_CLIENT_CID: u8 = 8;

/// Places of the bytes of an ID that the server itself reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    worker_at: u8,
    len: u8,
    shortest: u8,
}

impl Layout {
    /// Layout of the IDs of a server by itself. The first byte of an ID that a client chooses spreads new connections.
    pub(super) const PLAIN: Layout = Layout { worker_at: 0, len: 16, shortest: MIN_CLIENT_CID };

    /// Returns the layout behind a routing part that has `random` random bytes. Returns `None` if an ID would be too long.
    pub(super) fn behind(routing: usize, random: usize) -> Option<Layout> {
        let before = routing + OWN;
        let room = MAX_V1_CID.checked_sub(before)?;
        let usual = USUAL_LEN.saturating_sub(before);
        let entropy = usual.max(USUAL_ENTROPY.saturating_sub(random)).min(room);
        let len = u8::try_from(before + entropy).ok()?;
        let worker_at = u8::try_from(routing).ok()?;
        // What clients choose has no worker at this place, but for those as long as the server's.
        Some(Layout { worker_at, len, shortest: len })
    }

    /// Length of every ID, bytes.
    pub(super) fn len(self) -> usize {
        self.len.into()
    }

    /// Length of the routing part, bytes.
    pub(super) fn routing(self) -> usize {
        self.worker_at.into()
    }

    /// Length of what follows worker and generation, bytes.
    pub(super) fn entropy(self) -> usize {
        self.len().saturating_sub(self.routing() + OWN)
    }

    /// Writes worker and generation into an ID.
    pub(super) fn write(self, id: &mut [u8], worker: u8, generation: u8) {
        let own = [worker, layout_byte(generation)];
        id[self.worker_at.into()..][..OWN].copy_from_slice(&own);
    }

    /// Reads who made an ID, whatever its routing part says. A client's own choice of this length passes one time in four.
    pub(super) fn owner(self, cid: &[u8]) -> Owner {
        match cid.get(self.worker_at.into()..) {
            Some([worker, layout, ..])
                if cid.len() == self.len() && layout >> 6 == LAYOUT_VERSION =>
            {
                Owner::Ours { worker: *worker, generation: layout & GENERATION_MASK }
            }
            _ => Owner::Foreign,
        }
    }

    pub(super) fn steering(self) -> Steering {
        Steering::ConnectionId { worker_at: self.worker_at, shortest: self.shortest }
    }

    pub(super) fn mark(self, generation: u8) -> Option<CidMark> {
        let at = self.worker_at + 1;
        Some(CidMark { cid_len: self.len, at, value: layout_byte(generation) })
    }
}

/// Returns the byte behind the worker's index in the IDs of a process, of whose generation the low six bits count.
fn layout_byte(generation: u8) -> u8 {
    LAYOUT_VERSION << 6 | generation & GENERATION_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_has_sixteen_bytes_and_eight_random_ones_where_they_fit() {
        let shape = |routing, random| {
            let layout = Layout::behind(routing, random)?;
            assert_eq!(layout.routing(), routing);
            Some((layout.len(), layout.entropy()))
        };
        assert_eq!(shape(3, 0), Some((16, 11)));
        assert_eq!(shape(5, 0), Some((16, 9)));
        // Server ID and nonce: 8 and 7, 8 and 8, 3 and 4, 13 and 4, 14 and 4.
        assert_eq!(shape(16, 7), Some((19, 1)));
        assert_eq!(shape(17, 8), Some((19, 0)));
        assert_eq!(shape(8, 4), Some((16, 6)));
        assert_eq!(shape(18, 4), Some((20, 0)));
        assert_eq!(shape(19, 4), None);
        assert_eq!(shape(300, 4), None);
    }
}
