//! A checked configuration.

mod edge;
mod process;
mod protocol;
mod route;

pub use edge::{CongestionControl, CongestionRule, Cores, Group, Listener, Tls};
pub use process::{
    AccessFormat, AccessLog, Admin, Log, LogFormat, LogLevel, LogTarget, Qlog, QlogLevel, Server,
};
pub use protocol::{Limits, Quic};
pub use route::{
    Body, Files, Handler, HeaderEdits, HostHeader, HostPattern, Proxy, Redirect, Route, Symlinks,
};

/// Everything an operator can set, checked: each value lies within its bounds and each reference leads somewhere.
///
/// What needs the machine (files, cores, addresses in use) is not checked here.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The process.
    pub server: Server,
    /// Groups of workers, at least one, with distinct names.
    pub groups: Vec<Group>,
    /// At least one, with distinct names and distinct addresses.
    pub listeners: Vec<Listener>,
    /// In the order of the file; no two are for the same host, path and method. May be empty.
    pub routes: Vec<Route>,
    /// What clients may hold.
    pub limits: Limits,
    /// How connections behave.
    pub quic: Quic,
    /// Traces.
    pub qlog: Qlog,
    /// Messages.
    pub log: Log,
    /// Health and metrics.
    pub admin: Admin,
    /// A line for each request.
    pub access_log: AccessLog,
}
