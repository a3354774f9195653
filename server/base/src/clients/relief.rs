//! Relief of a process without memory: of the clients of all fronts, those that hold most bytes lose connections first.
//!
//! A front is HTTP/3 of a worker, or HTTP/1.1 and HTTP/2 of an origin thread. After each measurement that finds bytes to free, it adds
//! up what its clients hold, reports that, and closes connections of those that hold more, at all fronts together, than a client
//! keeps. Clients keep what they would have if those that hold most were cut to one level until enough is free.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ClientPrefix;
use crate::observe::memory_budget::MemoryBudget;

/// Memory that every client keeps when memory becomes short, bytes.
pub const KEPT: u64 = 1 << 20;
/// Measurements in a row after which clients keep half as much, if memory is still short: many that hold a little each would lock all
/// others out for good.
const PATIENCE: u64 = 8;
/// Times that it is halved, at most.
const HALVED: u64 = 4;
/// Part of the limit that every client keeps while memory is close to the limit and not short: one in so many.
const KEPT_PART: u64 = 4;
/// Memory of a connection beside that of its requests and responses, bytes.
pub const CONNECTION: u64 = 32 << 10;
/// Memory from which on what a client holds at a front counts for the others, bytes.
const COUNTED: u64 = 64 << 10;
/// Clients whose memory a front reports, at most: those that hold most of it.
const REPORTED: usize = 64;

/// Memory of the clients at all fronts.
#[derive(Debug, Default)]
pub struct Holdings {
    /// Last report of each front.
    reports: Mutex<Vec<Report>>,
}

/// Memory of the clients at one front.
#[derive(Debug, Default)]
struct Report {
    /// Number of the measurement after which it was made.
    measurement: u64,
    held: Vec<(ClientPrefix, u64)>,
}

impl Holdings {
    /// Adds a front.
    pub fn add_front(self: &Arc<Self>) -> FrontRelief {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.push(Report::default());
        FrontRelief { holdings: Arc::clone(self), front: reports.len() - 1 }
    }

    /// Replaces the report of a front. Returns what clients hold at the others, as far as they have looked lately.
    fn replace(&self, front: usize, report: Report) -> BTreeMap<ClientPrefix, u64> {
        let latest = report.measurement;
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports[front] = report;
        let mut elsewhere = BTreeMap::new();
        let others = reports.iter().enumerate().filter(|(at, report)| {
            // A front may not have ended its look after the same measurement yet.
            *at != front && report.measurement + 1 >= latest
        });
        for (client, bytes) in others.flat_map(|(_, report)| &report.held) {
            *elsewhere.entry(*client).or_default() += bytes;
        }
        elsewhere
    }
}

/// A front's part in the relief of all.
#[derive(Debug)]
pub struct FrontRelief {
    holdings: Arc<Holdings>,
    front: usize,
}

impl FrontRelief {
    /// Returns the number of the front, which no other front of the process has.
    pub fn number(&self) -> usize {
        self.front
    }

    /// Reports what clients hold at this front, and returns what clients keep. `strangers` is what those hold whose address nobody has
    /// validated.
    pub fn report(
        &self,
        held: impl Iterator<Item = (ClientPrefix, u64)>,
        strangers: impl Iterator<Item = u64>,
        memory: &MemoryBudget,
    ) -> Shares {
        let mut held: Vec<(ClientPrefix, u64)> =
            held.filter(|(_, bytes)| *bytes >= COUNTED).collect();
        held.sort_unstable_by_key(|(_, bytes)| Reverse(*bytes));
        let report = Report {
            measurement: memory.measurements(),
            held: held[..held.len().min(REPORTED)].to_vec(),
        };
        let elsewhere = self.holdings.replace(self.front, report);
        let mut totals = elsewhere.clone();
        for (client, bytes) in held {
            *totals.entry(client).or_default() += bytes;
        }
        let totals = totals.into_values().chain(strangers).collect();
        Shares { keeps: level(totals, memory.to_free()).max(least(memory)), elsewhere }
    }
}

/// Returns the bytes that every client keeps.
fn least(memory: &MemoryBudget) -> u64 {
    if memory.is_short() {
        KEPT >> (memory.short_in_a_row() / PATIENCE).min(HALVED)
    } else {
        KEPT.max(memory.limit() / KEPT_PART)
    }
}

/// Returns the bytes that proxies keep, of which each bears the requests of many clients.
pub fn kept_by_proxies(held: impl Iterator<Item = u64>, memory: &MemoryBudget) -> u64 {
    level(held.collect(), memory.to_free()).max(least(memory))
}

/// Returns the level to which amounts must be cut so that they become less by `to_free` together; 0 if they are not as much.
fn level(mut amounts: Vec<u64>, to_free: u64) -> u64 {
    amounts.sort_unstable_by_key(|amount| Reverse(*amount));
    let mut sum: u64 = 0;
    for (at, amount) in amounts.iter().enumerate() {
        sum = sum.saturating_add(*amount);
        let count = at as u64 + 1;
        let next = amounts.get(at + 1).copied().unwrap_or(0);
        if let Some(rest) = sum.checked_sub(to_free)
            && rest / count >= next
        {
            return rest / count;
        }
    }
    0
}

/// Memory that clients may keep.
#[derive(Debug, Default)]
pub struct Shares {
    /// Bytes that a client keeps, at all fronts together.
    keeps: u64,
    /// Bytes that clients hold at other fronts.
    elsewhere: BTreeMap<ClientPrefix, u64>,
}

impl Shares {
    /// Returns the bytes that a client keeps, at all fronts together.
    pub fn keeps(&self) -> u64 {
        self.keeps
    }

    /// Returns what a client holds in all that holds `own` bytes at this front.
    pub fn total(&self, client: ClientPrefix, own: u64) -> u64 {
        let elsewhere = self.elsewhere.get(&client).copied().unwrap_or(0);
        own.saturating_add(elsewhere)
    }

    /// Returns how many of its `own` bytes at this front a client is to lose.
    pub fn excess(&self, client: ClientPrefix, own: u64) -> u64 {
        own.min(self.total(client, own).saturating_sub(self.keeps))
    }
}

#[cfg(test)]
mod tests;
