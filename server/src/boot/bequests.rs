//! What processes leave each other by value: counters, which go on, and used tokens, none of which is good a second time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_base::clock;
use sluicegate_base::observe::metrics::Carried;
use sluicegate_quic::token::UsedTokens;

use super::error::one_line;
use crate::admin::Scraper;
use crate::handover::{Bequest, BequestPart};

/// What other processes leave to this one, and this one to them. Each process has the number of its upgrade.
#[derive(Debug)]
pub(super) struct Bequests {
    used_tokens: Arc<UsedTokens>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Processes that may live.
    living: Vec<Living>,
    /// Counters of those that have ended.
    ended: Carried,
}

/// A process that may live.
#[derive(Debug)]
struct Living {
    number: u64,
    bequest: Bequest,
    /// Number and text of the latest page of counters that it has left.
    page: (u64, Vec<u8>),
    /// Number of the used tokens that were taken from it last.
    taken: u64,
    /// Tokens that were left to it last, as [`UsedTokens::changes`].
    left: u64,
}

impl Bequests {
    pub(super) fn new(used_tokens: &Arc<UsedTokens>) -> Bequests {
        Bequests { used_tokens: Arc::clone(used_tokens), known: Mutex::default() }
    }

    /// Adds what a process leaves, from now on.
    pub(super) fn add(&self, number: u64, bequest: Bequest) {
        let page = (0, Vec::new());
        self.known().living.push(Living { number, bequest, page, taken: 0, left: 0 });
    }

    /// Notes that a process has ended.
    pub(super) fn end(&self, number: u64) {
        let known = &mut *self.known();
        for mut ended in known.living.extract_if(.., |other| other.number == number) {
            ended.add_counters(&mut known.ended);
        }
    }

    /// Returns the counters that other processes have left, but for one.
    pub(super) fn counters(&self, except: Option<u64>) -> Carried {
        let mut known = self.known();
        let mut carried = known.ended.clone();
        for other in known.living.iter_mut().filter(|other| Some(other.number) != except) {
            other.add_counters(&mut carried);
        }
        carried
    }

    /// Leaves the counters so far to another process, but for those that it has left to this one.
    pub(super) fn leave_counters(&self, number: u64, scraper: &Scraper) {
        let carried = self.counters(Some(number));
        // No thread of the admin address has to live for it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        match runtime {
            Ok(runtime) => self.leave_page(number, &runtime.block_on(scraper.page_over(carried))),
            Err(error) => tracing::warn!(%error, "upgrade: counters are not left"),
        }
    }

    fn leave_page(&self, number: u64, page: &str) {
        if let Some(other) = self.known().of(number) {
            other.leave(BequestPart::Counters, page.as_bytes());
        }
    }

    /// Leaves the tokens that were used so far to a process, unless it has them.
    pub(super) fn leave_tokens(&self, number: u64) {
        let mut known = self.known();
        let changes = self.used_tokens.changes();
        if let Some(other) = known.of(number).filter(|other| other.left != changes)
            && let Some(used) = self.used_tokens.to_bytes()
            && other.leave(BequestPart::UsedTokens, &used)
        {
            other.left = changes;
        }
    }

    /// Takes the tokens that a process has seen used, unless this one has them.
    pub(super) fn take_tokens(&self, number: u64) {
        let mut known = self.known();
        let Some(other) = known.of(number) else {
            return;
        };
        let Some((taken, used)) = other.bequest.left(BequestPart::UsedTokens, other.taken) else {
            return;
        };
        other.taken = taken;
        if !self.used_tokens.add(&used, clock::unix()) {
            tracing::warn!("upgrade: the used tokens of the other process have another form");
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn of(&mut self, number: u64) -> Option<&mut Living> {
        self.living.iter_mut().find(|other| other.number == number)
    }
}

impl Living {
    fn add_counters(&mut self, carried: &mut Carried) {
        if let Some(newer) = self.bequest.left(BequestPart::Counters, self.page.0) {
            self.page = newer;
        }
        carried.add(&String::from_utf8_lossy(&self.page.1));
    }

    /// Leaves it a part. Returns whether that is left.
    fn leave(&self, part: BequestPart, bytes: &[u8]) -> bool {
        let left = self.bequest.leave(part, bytes);
        if let Err(error) = &left {
            let error = one_line(error);
            tracing::warn!(?part, error, "upgrade: not left to the other process");
        }
        left.is_ok()
    }
}

#[cfg(test)]
mod tests {
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
        first.leave_page(1, &page(10, first.counters(Some(1))));
        assert_eq!(total(5, second.counters(None)), 15);
        first.leave_page(1, &page(11, first.counters(Some(1))));
        assert_eq!(total(5, second.counters(None)), 16);
        // Back: what the second one leaves is its own alone.
        second.leave_page(0, &page(7, second.counters(Some(0))));
        assert_eq!(total(12, first.counters(None)), 19);
        first.end(1);
        assert_eq!(total(12, first.counters(None)), 19);
        let third = start(2);
        first.leave_page(2, &page(12, first.counters(Some(2))));
        assert_eq!(total(1, third.counters(None)), 20);
        drop(first);
        third.end(0);
        assert_eq!(total(1, third.counters(None)), 20);
    }

    #[test]
    fn used_tokens_are_left_and_taken_where_there_are_others() {
        let bequest = Bequest::create().unwrap();
        let other = Bequest::of(bequest.duplicate().unwrap());
        let process = |bequest| {
            let used = Arc::<UsedTokens>::default();
            let process = Bequests::new(&used);
            process.add(0, bequest);
            (used, process)
        };
        let ((used, first), (known, second)) = (process(bequest), process(other));
        let now = clock::unix();
        let since = u64::try_from(now.as_millis()).unwrap();
        for round in 0..3 {
            for _ in 0..2 {
                first.leave_tokens(0);
                second.take_tokens(0);
                assert_eq!(known.changes(), round);
                assert_eq!(known.to_bytes(), used.to_bytes());
            }
            // As if a process before had them.
            let words = [since, 86_400_000].into_iter().chain(vec![1 << round; 1 << 20]);
            let words: Vec<_> = words.flat_map(u64::to_le_bytes).collect();
            assert!(used.add(&words, now));
        }
    }
}
