//! Ethernet frames of a network card that has no kernel behind it: which frames carry UDP datagrams for this host, how a
//! datagram becomes a frame, and ARP, NDP and ICMP for the host's addresses.
//!
//! The crate has no unsafe code, no clock and no I/O, and it knows neither DPDK nor QUIC. Whoever owns a port uses it so:
//!
//! - [`FrameParser::parse`] looks at each received frame in place. It allocates and copies nothing.
//! - [`write_headers`] writes the headers in front of a payload that is already in its buffer.
//! - [`NextHops`], one per worker, returns the station that a frame to a peer goes to.
//! - [`Stack`], one per port, answers ARP, NDP and echo requests, resolves neighbours for the workers, and reports datagrams
//!   that were too big for the path. It may run on any thread: frames go to it, and neighbours from it, by whatever queue
//!   the owner has.
#![forbid(unsafe_code)]

mod address;
mod bucket;
mod checksum;
mod config;
mod drop_reason;
mod headers;
mod layout;
mod neighbors;
mod next_hops;
mod parse;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod properties;
mod quote;
mod stack;

pub use address::{MacAddr, MacAddrError};
pub use config::{ConfigError, PortConfig};
pub use drop_reason::DropReason;
pub use headers::{
    IpChecksum, MAX_HEADERS, TxChecksums, TxHeader, UdpChecksum, WriteError, write_headers,
};
pub use next_hops::{NeighborTable, NextHop, NextHops};
pub use parse::{ChecksumState, FrameParser, RxChecksums, SlowKind, UdpFrame, Verdict};
pub use quote::Quote;
pub use stack::{Resolution, Stack, StackCounters, StackEvent};
