//! What an endpoint counts.

use std::collections::BTreeMap;

use super::header::DropReason;
use crate::h3;

/// Totals since the start.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: u64,
    /// Handshakes completed.
    pub established: u64,
    /// Connections that ended before their handshake did.
    pub unfinished: u64,
    /// Retry packets sent.
    pub retries: u64,
    /// Version negotiation packets sent.
    pub negotiations: u64,
    /// Stateless resets sent.
    pub resets: u64,
    /// Initials refused: too many connections, or draining.
    pub refused: u64,
    /// Retry tokens that did not hold.
    pub bad_tokens: u64,
    /// Connections accepted, by algorithm.
    pub by_algorithm: BTreeMap<&'static str, u64>,
    /// Connections that got another algorithm because of a low round-trip time.
    pub guarded: u64,
    /// Datagrams handed to another worker.
    pub strays: u64,
    /// Datagrams dropped, by [`DropReason::index`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Of the HTTP/3 sessions.
    pub h3: h3::Counters,
}

impl Counters {
    /// Adds another endpoint's.
    pub fn add(&mut self, other: &Counters) {
        self.accepted += other.accepted;
        self.established += other.established;
        self.unfinished += other.unfinished;
        self.retries += other.retries;
        self.negotiations += other.negotiations;
        self.resets += other.resets;
        self.refused += other.refused;
        self.bad_tokens += other.bad_tokens;
        self.guarded += other.guarded;
        self.strays += other.strays;
        for (algorithm, count) in &other.by_algorithm {
            *self.by_algorithm.entry(algorithm).or_default() += count;
        }
        for (sum, more) in self.dropped.iter_mut().zip(other.dropped) {
            *sum += more;
        }
        self.h3.add(&other.h3);
    }
}
