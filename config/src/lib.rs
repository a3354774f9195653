//! Configuration of Sluicegate: a TOML file in, checked and typed values out.
//!
//! Every key has a type, a unit, a default, bounds and a sentence, all in one schema; what is wrong in a file is
//! reported with its place, what was found, what was expected, and the nearest valid word. What needs the machine
//! (whether a file exists, how many cores there are) is for the server to check.

#![forbid(unsafe_code)]

mod error;
mod load;
mod manual;
mod model;
mod parse;
mod print;
mod schema;
mod source;
#[cfg(test)]
mod tests;
mod units;
mod value;

pub use error::{Error, Position};
pub use manual::manual;
pub use model::{
    AccessFormat, AccessLog, Admin, Body, Config, CongestionControl, CongestionRule, Cores, Files,
    Group, Handler, HeaderEdits, HostHeader, HostPattern, Limits, Listener, Log, LogFormat,
    LogLevel, LogTarget, Proxy, Qlog, QlogLevel, Quic, Redirect, Route, Server, Symlinks, Tls,
};
pub use sluicegate_dataplane::{Backend, DriverOptions, SocketOptions};
pub use units::parse_size;
