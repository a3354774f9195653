//! Upstream servers of a pool.

use toml::de::DeValue;

use super::UpstreamAddress;
use super::upstream::upstream_address;
use crate::error::Error;
use crate::field::{Field, Record};
use crate::print;
use crate::schema::{Key, Kind, count};
use crate::section::Section;
use crate::value::Item;

/// Expected address, in words.
pub(super) const ADDRESS: &str = "a server such as \"127.0.0.1:8080\", \"[::1]:8080\", \"app:8080\", \"http://app\", \
     \"https://app\", \"h3://app\" or \"unix:/run/app.sock\"";

/// Largest number of upstreams of a pool.
pub(super) const MAX_UPSTREAMS: usize = 64;

table! {
    /// An upstream server of the pool above, where its address does not suffice. In `upstreams` it can stand among
    /// addresses: `upstreams = ["10.0.0.1:8080", { address = "10.0.0.2:8080", weight = 2 }]`.
    #[derive(Eq)]
    pub struct PoolUpstream = [[pool.upstreams]] {
        /// Address of the server, as in `upstreams`.
        address: UpstreamAddress {
            kind: Kind::Word { words: ADDRESS, read: upstream_address },
            required: "\"127.0.0.1:8080\"",
            reload: Live
        },
        /// Share of the requests: a server of weight 2 gets twice as many as one of weight 1, whatever `balance` is.
        weight: u64 { kind: count(1, 1000, ""), default: "1", reload: Live },
        /// Whether the server gets requests only while all that are no backup are out of rotation, or have failed the
        /// request.
        backup: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Largest number of requests that the server handles at a time, as max_connections of `[[pool]]`; 0 means no limit.
        max_connections: Option<u64> {
            kind: count(0, 65_536, "requests"),
            unset: "that of the [[pool]]",
            examples: ["64"],
            reload: Live
        },
    }
}

impl PoolUpstream {
    /// Returns a server that is no backup and weighs 1.
    pub const fn new(address: UpstreamAddress) -> Self {
        Self { address, weight: 1, backup: false, max_connections: None }
    }

    /// Returns the server as TOML: its address, or an inline table if other keys differ from their defaults.
    fn inline(&self) -> String {
        if *self == Self::new(self.address.clone()) {
            return print::text(&self.address.to_string());
        }
        let keys = Self::TABLE.fields.iter().zip(self.values());
        let given =
            keys.filter(|(key, value)| key.given.default_toml().as_deref() != value.as_deref());
        let given: Vec<String> =
            given.filter_map(|(key, value)| Some(format!("{} = {}", key.name, value?))).collect();
        format!("{{ {} }}", given.join(", "))
    }
}

/// Upstream servers of a pool, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upstreams(pub Vec<PoolUpstream>);

impl Upstreams {
    /// Returns the addresses of all.
    pub fn addresses(&self) -> impl Iterator<Item = &UpstreamAddress> {
        self.0.iter().map(|upstream| &upstream.address)
    }
}

impl Field for Upstreams {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        let mut upstreams: Vec<PoolUpstream> = Vec::new();
        for (at, value) in item.entries() {
            let upstream = match (value, item.key.kind.table()) {
                (DeValue::Table(_), Some(table)) => {
                    Record::read(&Section::open(item.source, *table, at, value)?)?
                }
                _ => PoolUpstream::new(item.word_at(at, value)?),
            };
            if upstreams.iter().any(|known| known.address == upstream.address) {
                let found =
                    format!("upstream \"{}\" twice in `{}`", upstream.address, item.key.name);
                return Err(item.source.error(at, found, "each once"));
            }
            upstreams.push(upstream);
        }
        if upstreams.iter().all(|upstream| upstream.backup) {
            let found = format!("only backups in `{}`", item.key.name);
            return Err(item.source.error(item.at, found, "at least one upstream that is none"));
        }
        Ok(Self(upstreams))
    }

    fn print(&self, _: &Key) -> Option<String> {
        let list: Vec<String> = self.0.iter().map(PoolUpstream::inline).collect();
        Some(format!("[{}]", list.join(", ")))
    }
}
