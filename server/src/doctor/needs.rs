//! What a configuration needs of its host.

use std::net::SocketAddr;

use sluicegate_config::{Config, Group};
use sluicegate_dataplane::Backend;

use super::files::distinct;

/// What a configuration needs of its host.
pub(crate) struct HostNeeds<'a> {
    /// The configuration.
    pub(crate) config: &'a Config,
    /// Groups that have listeners.
    pub(crate) groups: Vec<ServedGroup<'a>>,
    /// Listeners some of whose clients get a model-based algorithm.
    pub(crate) model_based: Vec<ModelBasedListener>,
    /// Descriptors that the workers share.
    pub(crate) open_files: OpenFiles,
}

/// A group that has listeners.
pub(crate) struct ServedGroup<'a> {
    /// Its configuration.
    pub(crate) group: &'a Group,
    /// Core of each worker.
    pub(crate) cores: Vec<usize>,
    /// Addresses of its listeners.
    pub(crate) addresses: Vec<SocketAddr>,
}

/// A listener some of whose clients get a model-based algorithm, such as bbr3.
#[derive(Clone, Debug)]
pub(crate) struct ModelBasedListener {
    /// Name of the listener.
    pub(crate) listener: String,
    /// Name of the algorithm.
    pub(crate) algorithm: String,
    /// Whether `low_rtt_guard` gives clients on short paths another one.
    pub(crate) is_guarded: bool,
}

/// The limit of file descriptors, and what it leaves to requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFiles {
    /// Limit of the process, to which the server raises itself.
    pub(crate) limit: Option<u64>,
    /// Requests of a worker that may hold a descriptor each.
    pub(crate) exchanges: u64,
    /// Connections of a worker over TCP.
    pub(crate) tcp_connections: u64,
    /// Least limit that leaves enough.
    pub(crate) wanted: u64,
}

impl HostNeeds<'_> {
    /// Returns the cores of all workers, each once.
    pub(super) fn cores(&self) -> Vec<usize> {
        distinct(self.groups.iter().flat_map(|group| group.cores.iter().copied()))
    }
}

impl ServedGroup<'_> {
    pub(super) fn name(&self) -> &str {
        &self.group.name
    }

    /// Returns whether the workers use sockets of the kernel.
    pub(super) fn has_sockets(&self) -> bool {
        self.group.backend != Backend::Dpdk
    }
}
