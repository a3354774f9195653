//! What processes leave each other by value: counters, which go on, and used tokens, none of which is good a second time.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_base::clock;
use sluicegate_base::observe::metrics::Carried;
use sluicegate_quic::token::UsedTokens;

use super::error::one_line;
use crate::handover::{Bequest, BequestPart};

/// What other processes leave to this one, and this one to them. Each process has the number of its upgrade.
#[derive(Debug)]
pub(super) struct Bequests {
    used_tokens: Arc<UsedTokens>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Those of processes that may live.
    living: Vec<(u64, Bequest)>,
    /// Counters of those that have ended.
    ended: Carried,
}

impl Bequests {
    pub(super) fn new(used_tokens: &Arc<UsedTokens>) -> Bequests {
        Bequests { used_tokens: Arc::clone(used_tokens), known: Mutex::default() }
    }

    /// Adds what a process leaves, from now on.
    pub(super) fn add(&self, number: u64, bequest: Bequest) {
        self.known().living.push((number, bequest));
    }

    /// Notes that a process has ended.
    pub(super) fn end(&self, number: u64) {
        let known = &mut *self.known();
        for (_, bequest) in known.living.extract_if(.., |(other, _)| *other == number) {
            add_counters(&mut known.ended, &bequest);
        }
    }

    /// Returns the counters that other processes have left, but for one.
    pub(super) fn counters(&self, except: Option<u64>) -> Carried {
        let known = self.known();
        let mut carried = known.ended.clone();
        for (number, bequest) in &known.living {
            if Some(*number) != except {
                add_counters(&mut carried, bequest);
            }
        }
        carried
    }

    /// Leaves a page of counters to a process.
    pub(super) fn leave_counters(&self, number: u64, page: &str) {
        self.leave(number, BequestPart::Counters, page.as_bytes());
    }

    /// Leaves the tokens that were used so far to a process.
    pub(super) fn leave_tokens(&self, number: u64) {
        if let Some(used) = self.used_tokens.to_bytes() {
            self.leave(number, BequestPart::UsedTokens, &used);
        }
    }

    /// Takes the tokens that a process has seen used.
    pub(super) fn take_tokens(&self, number: u64) {
        let known = self.known();
        if let Some((_, bequest)) = known.living.iter().find(|(other, _)| *other == number)
            && let Some(used) = bequest.left(BequestPart::UsedTokens)
            && !self.used_tokens.add(&used, clock::unix())
        {
            tracing::warn!("upgrade: the used tokens of the other process have another form");
        }
    }

    fn leave(&self, number: u64, part: BequestPart, bytes: &[u8]) {
        let known = self.known();
        let found = known.living.iter().find(|(other, _)| *other == number);
        let left: io::Result<()> = found.map_or(Ok(()), |(_, bequest)| bequest.leave(part, bytes));
        if let Err(error) = left {
            tracing::warn!(
                ?part,
                error = one_line(&error),
                "upgrade: not left to the other process"
            );
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add_counters(carried: &mut Carried, bequest: &Bequest) {
    if let Some(page) = bequest.left(BequestPart::Counters) {
        carried.add(&String::from_utf8_lossy(&page));
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_base::clock;
use sluicegate_base::observe::metrics::Page;

    use super::*;

    /// A process, with the file by which it was started.
    fn started(bequest: Bequest) -> Bequests {
        let process = Bequests::new(&Arc::default());
        process.add(0, bequest);
        process
    }

    fn page(count: u64, carried: Carried) -> String {
        let mut page = Page::over(carried);
        page.family("counter", "requests_total", "All.");
        page.sample(&[], count);
        page.into_text()
    }

    fn total(count: u64, carried: Carried) -> u64 {
        let page = page(count, carried);
        page.lines().last().unwrap().rsplit_once(' ').unwrap().1.parse().unwrap()
    }

    #[test]
    fn each_request_counts_once_on_the_way_there_and_back_and_on() {
        let first = Bequests::new(&Arc::default());
        let start = |number| {
            let bequest = Bequest::create().unwrap();
            let other = Bequest::of(bequest.duplicate().unwrap());
            first.add(number, bequest);
            started(other)
        };
        let second = start(1);
        assert_eq!(total(0, second.counters(None)), 0);
        first.leave_counters(1, &page(10, first.counters(Some(1))));
        assert_eq!(total(5, second.counters(None)), 15);
        first.leave_counters(1, &page(11, first.counters(Some(1))));
        assert_eq!(total(5, second.counters(None)), 16);
        // Back: what the second one leaves is its own alone.
        second.leave_counters(0, &page(7, second.counters(Some(0))));
        assert_eq!(total(12, first.counters(None)), 19);
        first.end(1);
        assert_eq!(total(12, first.counters(None)), 19);
        let third = start(2);
        first.leave_counters(2, &page(12, first.counters(Some(2))));
        assert_eq!(total(1, third.counters(None)), 20);
        drop(first);
        third.end(0);
        assert_eq!(total(1, third.counters(None)), 20);
    }
}
