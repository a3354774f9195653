//! A small load balancer for QUIC: `sluicegate balance`.
//!
//! `Balancer` decides where a datagram goes: by the server ID in its connection ID (QUIC-LB), else by the flow of its addresses, else
//! by a hash of them. It has no socket and no clock. [`run`] is the process around it: sockets, checks of the servers, signals.
//!
//! Each flow has a socket of its own, connected to its server (source NAT). So answers need no rewriting, nothing needs a privilege, and
//! the servers see the balancer's address. The drivers of `sluicegate-dataplane` do not fit: they visit each of a few sockets in every
//! turn, and their set of sockets is fixed when they are opened. So the sockets are those of quinn-udp, with GSO, GRO and ECN, in one
//! level-triggered epoll, which gives each readable socket a turn.

#![forbid(unsafe_code)]

mod balancer;
mod bounds;
mod counters;
mod datagram;
mod flow_sockets;
mod flows;
mod forwarder;
mod health;
mod ids;
mod new_flows;
mod poller;
mod pool;
mod probes;
mod report;
mod run;
mod settings;
mod socket;
mod tuple;

pub use run::{RunError, Signals, run};
pub use settings::{BalancerSettings, SettingsError};
