//! Careful resume of a listener's connections.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::address::AwaitedAddress;
use sluicegate_cc::PathMemory;
use sluicegate_config::Listener;

use crate::congestion::path_table::{PathTable, Resumptions};

/// Capacities that a listener's connections have found, and how much of one a later connection may try at once.
#[derive(Clone)]
pub(super) struct Resume {
    table: Arc<PathTable>,
    settings: Settings,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Settings {
    lifetime: Duration,
    clients: u64,
    max_jump: u64,
}

/// The memory of a path, for one connection.
pub struct KnownPath {
    /// Capacity that earlier connections have saved.
    pub memory: Box<dyn PathMemory>,
    /// Address of the client, before which the memory is empty.
    pub client: AwaitedAddress,
    /// Most bytes in flight that the connection may try.
    pub max_jump: u64,
}

impl Resume {
    /// Returns the memory of an earlier configuration with the same settings, or an empty one; `None` if it is turned off.
    pub(super) fn of(listener: &Listener, earlier: Option<&Self>) -> Option<Self> {
        if !listener.careful_resume {
            return None;
        }
        let settings = Settings {
            lifetime: listener.careful_resume_lifetime,
            clients: listener.careful_resume_clients,
            max_jump: listener.careful_resume_max_jump,
        };
        let earlier = earlier.filter(|earlier| earlier.settings == settings);
        Some(earlier.cloned().unwrap_or_else(|| Self {
            table: Arc::new(PathTable::new(settings.clients, settings.lifetime)),
            settings,
        }))
    }

    pub(super) fn path(&self, local: IpAddr, events: &Arc<Resumptions>) -> KnownPath {
        let client = AwaitedAddress::default();
        KnownPath {
            memory: self.table.path(local, &client, events),
            client,
            max_jump: self.settings.max_jump,
        }
    }
}
