//! Time in each state of the congestion controller, and recoveries for which there is no loss.

use super::span::Span;
use crate::event::Word;
use crate::summary::TimeShare;
use crate::text::duration;
use crate::verdict::{Finding, Severity, Verdict};

/// Names of states that are told apart.
const MAX_STATES: usize = 16;
/// Least number of recoveries without loss that is no accident.
const MIN_ENTRIES: u64 = 10;
/// A recovery ends one round trip after the last loss (RFC 9002 §7.3.2). This many, and this long, are no accident.
const MAX_ROUND_TRIPS: f64 = 10.0;
const MIN_MS: f64 = 500.0;

/// Recoveries one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    span: Span,
    count: u64,
}

/// Time in recovery since the latest of its beginning and a signal, while data waits.
#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    span: Span,
    ms: f64,
    round_trips: f64,
}

/// Watches the states of the controller.
#[derive(Debug, Default)]
pub(super) struct StateWatch {
    states: Vec<(Word, f64, u64)>,
    current: Option<usize>,
    /// Losses and congestion marks so far; `None` if the trace has never told any.
    signals: u64,
    tells_losses: bool,
    signals_at_leave: u64,
    /// Recoveries in a row without a signal, and the longest such row.
    empty: Row,
    longest_row: Row,
    entered: f64,
    stay: Option<Stay>,
    longest_stay: Stay,
}

fn is_recovery(name: Word) -> bool {
    name.as_str().to_ascii_lowercase().contains("recovery")
}

impl StateWatch {
    pub(super) fn name(&self) -> Option<Word> {
        self.current.and_then(|place| self.states.get(place)).map(|state| state.0)
    }

    pub(super) fn advance(&mut self, from: f64, to: f64, round_trips: f64, is_waiting: bool) {
        let Some(state) = self.current.and_then(|place| self.states.get_mut(place)) else {
            return;
        };
        state.1 += to - from;
        // A recovery ends by an acknowledgement, so it lasts while there is nothing to send.
        if is_recovery(state.0) && is_waiting {
            let stay = self.stay.get_or_insert(Stay { span: Span { from, to }, ..Stay::default() });
            stay.span.to = to;
            stay.ms += to - from;
            stay.round_trips += round_trips;
            if stay.ms > self.longest_stay.ms {
                self.longest_stay = *stay;
            }
        }
    }

    /// Takes losses and congestion marks.
    pub(super) fn on_signal(&mut self, count: u64) {
        self.tells_losses = true;
        if count > 0 {
            self.signals = self.signals.saturating_add(count);
            self.stay = None;
        }
    }

    /// Learns that the trace tells losses, though there may be none.
    pub(super) fn on_loss_count(&mut self) {
        self.tells_losses = true;
    }

    fn end_recovery(&mut self, at: f64) {
        let is_empty = self.signals == self.signals_at_leave;
        self.signals_at_leave = self.signals;
        if !is_empty {
            self.empty = Row::default();
            return;
        }
        if self.empty.count == 0 {
            self.empty.span.from = self.entered;
        }
        self.empty.count += 1;
        self.empty.span.to = at;
        if self.empty.count > self.longest_row.count {
            self.longest_row = self.empty;
        }
    }

    pub(super) fn on_state(&mut self, name: Word, at: f64) {
        if name.as_str().is_empty() || self.name() == Some(name) {
            return;
        }
        // Judged when a recovery ends: writers disagree whether loss or state comes first.
        if self.name().is_some_and(is_recovery) {
            self.end_recovery(at);
        }
        self.entered = at;
        self.stay = None;
        self.current = self.states.iter().position(|state| state.0 == name);
        if self.current.is_none() && self.states.len() < MAX_STATES {
            self.states.push((name, 0.0, 0));
            self.current = Some(self.states.len() - 1);
        }
        if let Some(state) = self.current.and_then(|place| self.states.get_mut(place)) {
            state.2 += 1;
        }
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        if !self.tells_losses {
            return None;
        }
        let verdict = |span: Span, evidence: String| Verdict {
            finding: Finding::StuckInRecovery,
            severity: Severity::Critical,
            from_ms: span.from,
            to_ms: span.to,
            evidence,
        };
        let Stay { span, ms, round_trips } = self.longest_stay;
        if ms > MIN_MS && round_trips > MAX_ROUND_TRIPS {
            let evidence = format!(
                "in recovery for {} after the last loss, {round_trips:.0} round trips; one is usual",
                duration(ms)
            );
            return Some(verdict(span, evidence));
        }
        let Row { span, count } = self.longest_row;
        if count < MIN_ENTRIES {
            return None;
        }
        let evidence = format!(
            "entered recovery {count} times in {} without a loss or a congestion mark in between",
            duration(span.duration())
        );
        Some(verdict(span, evidence))
    }

    pub(super) fn shares(&self) -> Vec<TimeShare> {
        let share = |state: &(Word, f64, u64)| TimeShare {
            name: state.0.as_str().to_owned(),
            ms: state.1,
            times: state.2,
        };
        let mut shares: Vec<TimeShare> = self.states.iter().map(share).collect();
        shares.sort_by(|one, other| other.ms.total_cmp(&one.ms));
        shares
    }
}
