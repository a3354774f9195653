//! The scheme of a server behind Katran, which reads version and host in the first bytes of an ID.

use sluicegate_base::entropy::Entropy;
use sluicegate_cid::HostId;
use sluicegate_dataplane::{CidMark, Steering};

use super::connection_id::ConnectionId;
use super::layout::Layout;
use super::scheme::{CidScheme, Owner, random_id};

/// The scheme of a server behind Katran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Katran {
    pub(super) host: HostId,
    pub(super) layout: Layout,
}

impl CidScheme for Katran {
    fn cid_len(&self) -> usize {
        self.layout.len()
    }

    fn generate(&mut self, worker: u8, generation: u8, entropy: &mut Entropy) -> ConnectionId {
        random_id(self.layout.len(), entropy, |id| {
            self.layout.write(id, worker, generation);
            let written = self.host.encode(id);
            debug_assert!(written.is_ok());
        })
    }

    fn owner(&mut self, cid: &[u8]) -> Owner {
        match HostId::decode(cid) {
            Some(host) if host == self.host => self.layout.owner(cid),
            _ => Owner::Foreign,
        }
    }

    fn steering(&self) -> Steering {
        self.layout.steering()
    }

    fn mark(&self, generation: u8) -> Option<CidMark> {
        self.layout.mark(generation)
    }
}
