//! One contract, run on every driver that can open here: a new backend is covered by being listed in
//! `rig::Kind`. The suite runs over loopback and, again for each backend that can have one, over a veth pair between two network
//! namespaces (`over_veth.rs`). `exceptions.rs` says which backend leaves which case out, and why.
#![expect(clippy::disallowed_methods, reason = "the deadline test reads the clock")]
#![expect(clippy::unwrap_used, reason = "what can't be set up fails the test")]

mod device;
mod exceptions;
mod flow;
mod initials;
mod link;
mod meta;
mod namespace;
mod node;
mod over_veth;
mod rebind;
mod rig;
mod sharing;
mod sleep;
mod take_over;
mod trouble;
mod veth;
mod vlan;
