//! Workers, and the addresses they serve.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use sluicegate_dataplane::{Backend, DriverOptions, SocketOptions};

/// Pinned threads with one backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What listeners refer to.
    pub name: String,
    /// How datagrams get in and out.
    pub backend: Backend,
    /// Where its workers run.
    pub cores: Cores,
    /// What the sockets of its listeners are bound with.
    pub socket: SocketOptions,
    /// What its workers' drivers are opened with.
    pub driver: DriverOptions,
}

/// The cores of a group, one worker each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cores {
    /// Every core that the process may use.
    Auto,
    /// These, each once, in the order given; never empty.
    List(Vec<usize>),
}

/// Addresses that clients connect to.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// What metrics and logs call it.
    pub name: String,
    /// UDP addresses, at least one; port 0 asks for a free port.
    pub addresses: Vec<SocketAddr>,
    /// The name of the [`Group`] that serves it; it exists.
    pub group: String,
    /// How fast to send, to clients that no rule claims.
    pub congestion_control: CongestionControl,
    /// Other algorithms for some clients: the first rule that claims a connection decides.
    pub congestion_rules: Vec<CongestionRule>,
    /// Minimum round-trip time below which `bbr3` is not given to further connections from the client's network.
    pub low_rtt_guard: Option<Duration>,
    /// The server's identities: the first is for clients that ask for no name or for one that no certificate holds, the
    /// others for the names that they hold. Empty asks for a self-signed certificate, made at start.
    pub tls: Vec<Tls>,
}

/// An algorithm for some of a listener's connections.
#[derive(Clone, Debug, PartialEq)]
pub struct CongestionRule {
    /// The clients it is for; never empty, host bits zero.
    pub networks: Vec<IpNet>,
    /// The share of their connections that it claims, 0 to 1; the others go on to the next rule.
    pub share: f64,
    /// How fast to send to them.
    pub congestion_control: CongestionControl,
}

/// An algorithm of the registry with a value for each of its options.
#[derive(Clone, Debug, PartialEq)]
pub struct CongestionControl {
    /// Its name in the registry that the configuration was read with.
    pub algorithm: String,
    /// Its options, defaults filled in.
    pub options: sluicegate_cc::Options,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM: the server's certificate, then the chain.
    pub certificate: PathBuf,
    /// PEM: the private key.
    pub key: PathBuf,
}
