//! The servers that connection IDs name.

use std::collections::HashMap;

use sluicegate_cid::{QuicLb, config_of};

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

    /// Returns whether servers have IDs.
    pub(crate) fn are_used(&self) -> bool {
        !self.servers.is_empty()
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
