//! The servers, and the choice of one for a new client.

use std::collections::HashMap;
use std::net::SocketAddr;

use sluicegate_base::hash::{hash, mixed};

use crate::settings::ServerSettings;
use crate::tuple::Tuple;

/// Identifies a server: its name at its address. It stays the same in every reload, and is never that of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerKey(u64);

/// A server that may get datagrams.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) key: ServerKey,
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) health: Option<SocketAddr>,
    hash: u64,
    drains: bool,
    is_up: bool,
}

/// All servers.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    servers: Vec<Server>,
    next_key: u64,
}

impl Pool {
    /// Replaces the servers, of which those with a known name and address keep their key and, if the same address is checked, their
    /// health. Returns the server of each ID.
    pub(crate) fn adopt(&mut self, servers: &[ServerSettings]) -> HashMap<Vec<u8>, ServerKey> {
        let mut ids = HashMap::new();
        let former = std::mem::take(&mut self.servers);
        for settings in servers {
            let known = former
                .iter()
                .find(|former| former.name == settings.name && former.address == settings.address);
            let key = known.map_or(ServerKey(self.next_key), |known| known.key);
            self.next_key += u64::from(known.is_none());
            let checked = known.filter(|known| known.health == settings.health);
            self.servers.push(Server {
                key,
                name: settings.name.clone(),
                address: settings.address,
                health: settings.health,
                hash: hash(settings.name.as_bytes()),
                drains: settings.drain,
                is_up: checked.is_none_or(|known| known.is_up),
            });
            ids.extend(settings.ids.iter().map(|id| (id.clone(), key)));
        }
        ids
    }

    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub(crate) fn find(&self, key: ServerKey) -> Option<&Server> {
        self.servers.iter().find(|server| server.key == key)
    }

    /// Notes whether the checks of a server succeed.
    pub(crate) fn set_health(&mut self, key: ServerKey, is_up: bool) {
        for server in self.servers.iter_mut().filter(|server| server.key == key) {
            server.is_up = is_up;
        }
    }

    /// Returns the server for a new client: of those that are up and do not drain, the one that ranks highest for these addresses. If
    /// a server comes or goes, no other two exchange clients (rendezvous hashing). If there is none, those that are up and drain are
    /// chosen from; if none is up, checks count for nothing: a check that fails everywhere is more often wrong than right. Returns `None`
    /// if all drain.
    pub(crate) fn choose(&self, tuple: &Tuple) -> Option<&Server> {
        let hash = tuple.hash();
        let open = || self.servers.iter().filter(|server| !server.drains);
        let rank = |server: &&Server| mixed(hash ^ server.hash);
        let up = || self.servers.iter().filter(|server| server.is_up);
        let chosen = up().filter(|server| !server.drains).max_by_key(rank);
        let or_any = || up().max_by_key(rank).or_else(|| open().max_by_key(rank));
        chosen.or_else(|| open().next().and_then(|_| or_any()))
    }

    /// Returns whether a server is there, up, and does not drain.
    pub(crate) fn takes_clients(&self, key: ServerKey) -> bool {
        self.find(key).is_some_and(|server| server.is_up && !server.drains)
    }

    /// Returns whether all servers drain.
    pub(crate) fn drains(&self) -> bool {
        self.servers.iter().all(|server| server.drains)
    }
}
