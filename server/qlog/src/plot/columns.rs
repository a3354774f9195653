//! What a picture shows, gathered in columns of equal duration whose number is bounded: when they do not suffice, each becomes twice as wide.

use crate::event::Word;
use crate::wait::SenderWait;

/// Most columns.
pub(super) const MAX_COLUMNS: usize = 800;
/// Duration of a column at first, ms.
const FIRST_WIDTH: f64 = 0.25;
/// States that have a colour; the others share one.
pub(super) const MAX_STATES: usize = 8;

/// A value that holds until it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Window,
    InFlight,
    Threshold,
    SmoothedRtt,
    LatestRtt,
    MinRtt,
    Pacing,
    StreamsSent,
    StreamsReceived,
}

pub(super) const LEVELS: usize = 9;

/// Bytes that are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Sent,
    Delivered,
    Received,
}

pub(super) const FLOWS: usize = 3;

/// Values of a level within a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) first: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) last: f64,
}

impl Range {
    fn with(self, later: Range) -> Range {
        Range {
            first: self.first,
            min: self.min.min(later.min),
            max: self.max.max(later.max),
            last: later.last,
        }
    }
}

/// A part of the time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Column {
    pub(super) levels: [Option<Range>; LEVELS],
    pub(super) flows: [f64; FLOWS],
    /// Time in each state, ms; the last one is all others.
    pub(super) states: [f64; MAX_STATES + 1],
    pub(super) waits: [f64; SenderWait::ALL.len()],
    pub(super) losses: u64,
    pub(super) timeouts: u64,
}

impl Column {
    fn with(&self, later: &Column) -> Column {
        let mut sum = *self;
        for (one, other) in sum.levels.iter_mut().zip(later.levels) {
            *one = match (*one, other) {
                (Some(one), Some(other)) => Some(one.with(other)),
                (one, other) => one.or(other),
            };
        }
        add(&mut sum.flows, &later.flows);
        add(&mut sum.states, &later.states);
        add(&mut sum.waits, &later.waits);
        sum.losses = sum.losses.saturating_add(later.losses);
        sum.timeouts = sum.timeouts.saturating_add(later.timeouts);
        sum
    }
}

fn add(sums: &mut [f64], more: &[f64]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

/// The columns of a trace.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) columns: Vec<Column>,
    /// Duration of each, ms.
    pub(super) width: f64,
    /// Time of the latest event, ms.
    pub(super) end: f64,
    pub(super) states: Vec<Word>,
    state: Option<usize>,
    wait: SenderWait,
}

impl Columns {
    pub(super) fn new() -> Columns {
        Columns {
            columns: Vec::new(),
            width: FIRST_WIDTH,
            end: 0.0,
            states: Vec::new(),
            state: None,
            wait: SenderWait::Nothing,
        }
    }

    /// Returns the column of a time.
    fn at(&mut self, at: f64) -> &mut Column {
        while at / self.width >= MAX_COLUMNS as f64 {
            let halves = self.columns.chunks(2);
            let halve = |pair: &[Column]| match pair {
                [one, other] => one.with(other),
                [one] => *one,
                _ => Column::default(),
            };
            self.columns = halves.map(halve).collect();
            self.width *= 2.0;
        }
        let place = usize::try_from(crate::number::whole(at / self.width)).unwrap_or(0);
        if place >= self.columns.len() {
            self.columns.resize(place + 1, Column::default());
        }
        &mut self.columns[place]
    }

    /// Goes on to a time, which is not before the latest. What holds since then is added to all columns between.
    pub(super) fn advance(&mut self, at: f64) {
        let mut from = std::mem::replace(&mut self.end, at);
        // Wide enough first, so that no more than the bounded number of columns is visited.
        self.at(at);
        let (state, wait) = (self.state, self.wait);
        while from < at {
            let width = self.width;
            let end = ((from / width).floor() + 1.0) * width;
            let to = if end > from { end.min(at) } else { at };
            let column = self.at(from);
            if let Some(state) = state {
                column.states[state.min(MAX_STATES)] += to - from;
            }
            column.waits[wait as usize] += to - from;
            from = to;
        }
    }

    pub(super) fn level(&mut self, level: Level, value: f64) {
        let range = Range { first: value, min: value, max: value, last: value };
        let slot = &mut self.at(self.end).levels[level as usize];
        *slot = Some(slot.map_or(range, |earlier| earlier.with(range)));
    }

    pub(super) fn flow(&mut self, flow: Flow, bytes: f64) {
        self.at(self.end).flows[flow as usize] += bytes;
    }

    pub(super) fn lost(&mut self, packets: u64) {
        let losses = &mut self.at(self.end).losses;
        *losses = losses.saturating_add(packets);
    }

    pub(super) fn timeout(&mut self) {
        self.at(self.end).timeouts += 1;
    }

    pub(super) fn wait(&mut self, wait: SenderWait) {
        self.wait = wait;
    }

    pub(super) fn state(&mut self, name: Word) {
        let known = self.states.iter().position(|state| *state == name);
        self.state = known.or_else(|| {
            if self.states.len() < MAX_STATES {
                self.states.push(name);
            }
            Some(self.states.iter().position(|state| *state == name).unwrap_or(MAX_STATES))
        });
    }

    /// Returns the largest value of a level.
    pub(super) fn largest(&self, level: Level) -> f64 {
        let ranges = self.columns.iter().filter_map(|column| column.levels[level as usize]);
        ranges.map(|range| range.max).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_bounded_and_lose_nothing() {
        let mut columns = Columns::new();
        columns.state(Word::new("slow_start"));
        for event in 0..100_000_u32 {
            columns.advance(f64::from(event));
            columns.level(Level::Window, f64::from(event % 1000));
            columns.flow(Flow::Sent, 10.0);
            columns.lost(1);
        }
        assert!(columns.columns.len() <= MAX_COLUMNS);
        let sum = |of: fn(&Column) -> f64| columns.columns.iter().map(of).sum::<f64>();
        assert!((sum(|column| column.flows[0]) - 1e6).abs() < 1e-3);
        assert!((sum(|column| column.states[0]) - 99_999.0).abs() < 1e-3);
        assert!((sum(|column| column.waits.iter().sum()) - 99_999.0).abs() < 1e-3);
        assert!((columns.largest(Level::Window) - 999.0).abs() < 1e-9);
    }

    #[test]
    fn a_jump_of_years_is_quick() {
        let mut columns = Columns::new();
        columns.advance(1.0);
        columns.advance(3e12);
        columns.level(Level::Window, 1.0);
        assert!(columns.columns.len() <= MAX_COLUMNS);
    }
}
