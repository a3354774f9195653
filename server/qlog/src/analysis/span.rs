//! Times in which something holds.

/// A part of the time, ms since the first event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Span {
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Span {
    pub(super) fn duration(self) -> f64 {
        self.to - self.from
    }
}

/// The longest of the times in which something held, and their sum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spans {
    current: Option<Span>,
    pub(super) longest: Span,
    pub(super) first: Option<f64>,
    pub(super) last: f64,
    pub(super) total: f64,
    pub(super) count: u64,
}

impl Spans {
    /// Notes whether it held from one event to the next.
    pub(super) fn hold(&mut self, holds: bool, from: f64, to: f64) {
        if !holds {
            self.current = None;
            return;
        }
        if self.current.is_none() {
            self.count += 1;
        }
        let span = Span { from: self.current.map_or(from, |span| span.from), to };
        self.current = Some(span);
        self.first = self.first.or(Some(from));
        self.last = to;
        self.total += to - from;
        if span.duration() > self.longest.duration() {
            self.longest = span;
        }
    }
}
