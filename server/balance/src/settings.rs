//! Settings of a balancer, with the keys that its configuration names.

use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_base::secrets::hex_key::{self, HexKeyError};
use sluicegate_cid::{KEY_LEN, Lengths, QuicLb};
use sluicegate_config::{BalancerConfig, BalancerIds};

/// Everything that a reload may change.
#[derive(Debug)]
pub struct BalancerSettings {
    /// Servers, with distinct names and addresses.
    pub(crate) servers: Vec<ServerSettings>,
    /// Configurations of connection IDs, with distinct numbers.
    pub(crate) ids: Vec<QuicLb>,
    /// Silence after which a flow ends.
    pub(crate) idle_timeout: Duration,
    /// Most flows, 1 at least.
    pub(crate) max_flows: usize,
    /// Flows that may begin in a second, of those to a server that an ID names, and of the others.
    pub(crate) new_flows_per_second: u32,
    /// Checks of servers.
    pub(crate) health: HealthSettings,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerSettings {
    /// Name, for messages and for the choice by hash.
    pub(crate) name: String,
    /// Address that gets datagrams.
    pub(crate) address: SocketAddr,
    /// Server IDs.
    pub(crate) ids: Vec<Vec<u8>>,
    /// Address of the checks.
    pub(crate) health: Option<SocketAddr>,
    /// Whether it gets no new clients.
    pub(crate) drain: bool,
}

/// When servers are checked, and how many checks change their health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HealthSettings {
    /// Time between two checks of a server.
    pub(crate) interval: Duration,
    /// Time in which a connection must be established.
    pub(crate) timeout: Duration,
    /// Checks in a row that must succeed, 1 at least.
    pub(crate) rises: u64,
    /// Checks in a row that must fail, 1 at least.
    pub(crate) falls: u64,
}

/// Error in a table of `[[connection_ids]]`.
#[derive(Debug, thiserror::Error)]
#[error("`connection_ids.{key}`: {reason}")]
pub struct SettingsError {
    /// Place of the table, counted from 0.
    pub table: usize,
    /// Key that the error is about.
    pub key: &'static str,
    reason: String,
}

impl BalancerSettings {
    /// Reads the keys that a configuration names.
    ///
    /// # Errors
    /// A file cannot be read, others have access to it, or it holds no key.
    pub fn read(config: &BalancerConfig) -> Result<BalancerSettings, SettingsError> {
        let servers = config.servers.iter().map(|server| ServerSettings {
            name: server.name.clone(),
            address: server.address,
            ids: server.id_bytes().collect(),
            health: server.health,
            drain: server.drain,
        });
        let ids = config.connection_ids.iter().enumerate().map(|(table, ids)| {
            quic_lb(ids).map_err(|(key, reason)| SettingsError { table, key, reason })
        });
        let checks = &config.health_check;
        Ok(BalancerSettings {
            servers: servers.collect(),
            ids: ids.collect::<Result<_, _>>()?,
            idle_timeout: config.flows.idle_timeout,
            max_flows: usize::try_from(config.flows.max).unwrap_or(usize::MAX),
            new_flows_per_second: u32::try_from(config.flows.new_per_second).unwrap_or(u32::MAX),
            health: HealthSettings {
                interval: checks.interval,
                timeout: checks.timeout,
                rises: checks.rises,
                falls: checks.falls,
            },
        })
    }
}

fn quic_lb(ids: &BalancerIds) -> Result<QuicLb, (&'static str, String)> {
    let key: Option<Result<[u8; KEY_LEN], _>> =
        ids.key_file.as_deref().map(|path| hex_key::read(path, false));
    let key = key.transpose().map_err(|error| ("key_file", without_exception(&error)))?;
    let lengths = Lengths { server_id: ids.server_id_length.into(), nonce: ids.nonce.into() };
    let config = u8::try_from(ids.config).unwrap_or(u8::MAX);
    QuicLb::new(config, lengths, key.as_ref()).map_err(|error| ("config", error.to_string()))
}

/// Returns the error without the key by which servers accept open files: a balancer has none.
fn without_exception(error: &HexKeyError) -> String {
    match error {
        HexKeyError::TooOpen(error) => format!("{}: {}", error.path().display(), error.reason()),
        error => error.to_string(),
    }
}
