//! A port of DPDK: the workers of a group share it, and each drives a queue of its own.
//!
//! Received frames are parsed and decrypted where the port put them, and packets are written where the port takes them
//! from. ARP, neighbor discovery and ICMP are `slow.rs`'s business, or the kernel's, which then has the addresses. A worker without traffic
//! looks at its queue in ever longer intervals, because no interrupt tells it.

mod core;
pub(crate) mod driver;
pub(crate) mod host;
mod kernel;
pub(crate) mod library;
mod link;
mod outgoing;
pub(crate) mod reasons;
mod rx;
pub(crate) mod seed;
mod shared;
mod slow;
mod tx;
