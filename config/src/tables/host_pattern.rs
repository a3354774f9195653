//! Hosts that routes are for.

use std::fmt;

use crate::field::words_in_fields;
use crate::schema::{Kind, Reason, Refusal};
use crate::value::Word;
use crate::words::{canonical, host};

/// Pattern of hosts, in lower case, without a port; an IPv6 address stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// This host alone.
    Exact(String),
    /// Every longer name that ends with this text, which starts with a dot.
    Suffix(String),
}

impl HostPattern {
    /// Returns whether the pattern matches a host in lower case, without a port.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => host == name,
            Self::Suffix(end) => host.len() > end.len() && host.ends_with(end),
        }
    }
}

impl fmt::Display for HostPattern {
    /// Writes the pattern as a file does: `example.com`, `*.example.com`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Suffix(suffix) => write!(f, "*{suffix}"),
        }
    }
}

impl Word for HostPattern {
    fn of_canonical(word: String) -> Option<Self> {
        Some(match word.strip_prefix('*') {
            Some(suffix) => Self::Suffix(suffix.to_owned()),
            None => Self::Exact(word),
        })
    }
}

words_in_fields!(HostPattern);

/// Kind of a list of hosts and patterns.
pub(super) const HOSTS: Kind = Kind::Words {
    words: "a host such as \"example.com\", \"*.example.com\", \"192.0.2.1\" or \"[2001:db8::1]\", without a port",
    each: "",
    min: 1,
    max: 64,
    read: host_or_pattern,
};

/// Reads a host, or a pattern of the names below one.
pub(super) fn host_or_pattern(word: &str) -> Result<String, Refusal> {
    // nginx's way to write a server for every other host.
    if word == "_" {
        return Err(Refusal::because(Reason {
            found: "\"_\" for `host`".to_owned(),
            expected: "a host; a route without `host` matches any host".to_owned(),
            nearest: None,
        }));
    }
    canonical(host_pattern(word))
}

/// Returns the canonical form of a host, or of every name below one.
fn host_pattern(word: &str) -> Option<String> {
    let Some(suffix) = word.strip_prefix("*.") else {
        return host(word);
    };
    // Below an address there is nothing.
    let name =
        host(suffix).filter(|h| !h.starts_with('[') && h.parse::<std::net::Ipv4Addr>().is_err());
    name.map(|name| format!("*.{name}"))
}
