//! The servers that connection IDs name.

use std::collections::HashMap;

use sluicegate_cid::{QuicLb, UNROUTABLE, config_of};

use crate::pool::ServerKey;

/// Decodes connection IDs under all configurations.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    configurations: Vec<QuicLb>,
    /// Server of each server ID. One ID is never that of two servers, whatever the configuration.
    servers: HashMap<Vec<u8>, ServerKey>,
}

impl Ids {
    pub(crate) fn new(configurations: Vec<QuicLb>, servers: HashMap<Vec<u8>, ServerKey>) -> Ids {
        Ids { configurations, servers }
    }

    /// Returns whether an ID that names no server is one that a client has chosen: servers without one of their own choose those of the last
    /// configuration, and without server IDs all are alike.
    pub(crate) fn is_of_client(&self, id: &[u8]) -> bool {
        !self.servers.is_empty() && config_of(id).is_some_and(|number| number != UNROUTABLE)
    }

    /// Returns the server that an ID names, which begins `id`: `None` for an unknown server, an unknown configuration or none.
    pub(crate) fn decode(&mut self, id: &[u8]) -> Option<ServerKey> {
        let number = config_of(id)?;
        let mut known = self.configurations.iter_mut();
        let configuration = known.find(|known| known.config() == number)?;
        let plaintext = configuration.decode(id)?;
        self.servers.get(plaintext.server_id()).copied()
    }
}
