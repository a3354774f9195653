//! State that the connections of a thread share.

use std::sync::mpsc::Sender;
use std::time::Instant;

use anyhow::Context as _;
use quiche::h3::EncodedHeaders;
use sluicegate_quic_client::Buffers;

use crate::heads::{CountedHead, Heads};
use crate::interval::{IntervalAccount, Part};
use crate::log::RequestLog;
use crate::plan::Plan;
use crate::tally::Tally;

/// A line of text for the user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    /// A line of the report.
    Report(String),
    /// A note beside the report.
    Note(String),
    /// Figures of a thread in an interval.
    Part(Box<Part>),
}

/// State that a thread lends to its connections.
pub(crate) struct Context<'a> {
    pub(crate) plan: &'a Plan,
    /// The heads of the plan's requests, each encoded once.
    pub(crate) requests: Vec<EncodedHeaders>,
    /// Heads of the last responses.
    pub(crate) heads: Heads,
    pub(crate) tally: Tally,
    pub(crate) buffers: Buffers,
    pub(crate) log: Option<RequestLog<'a>>,
    pub(crate) lines: Sender<Line>,
    /// Account of the interval that goes on, if there are intervals.
    pub(crate) interval: Option<IntervalAccount>,
    /// Start of what counts: until then the run warms up.
    pub(crate) counted_from: Option<Instant>,
    /// Requests that have no response yet.
    pub(crate) open_requests: u64,
    /// Connections in their handshakes.
    pub(crate) handshaking: u64,
    /// This thread reports for all, as the first one does.
    pub(crate) reports: bool,
    /// Requests after which progress is reported, if it is.
    pub(crate) progress_step: Option<u64>,
    /// Time, read before each connection's turn.
    pub(crate) now: Instant,
    clock: fn() -> Instant,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        log: Option<RequestLog<'a>>,
        lines: Sender<Line>,
        clock: fn() -> Instant,
    ) -> anyhow::Result<Self> {
        let requests = plan.heads.iter().map(|head| EncodedHeaders::new(head));
        let mut context = Context {
            plan,
            requests: requests.collect::<Result<_, _>>().context("cannot encode a request")?,
            heads: Heads::default(),
            tally: Tally::default(),
            buffers: Buffers::default(),
            log,
            lines,
            interval: plan.options.intervals().map(IntervalAccount::new),
            counted_from: None,
            open_requests: 0,
            handshaking: 0,
            reports: false,
            progress_step: None,
            now: clock(),
            clock,
        };
        context.tick();
        Ok(context)
    }

    /// Reads the clock.
    pub(crate) fn tick(&mut self) {
        self.now = (self.clock)();
        quiche::clock::set(Some(self.now));
    }

    /// Returns whether what happens now counts.
    pub(crate) fn counts(&self) -> bool {
        self.counted_from.is_some_and(|from| self.now >= from)
    }

    /// Returns whether a request counts whose latency begins at `start`: in the open loop, those that are due after the warm-up
    /// do. In the closed loop all do that end after it, as in h2load, so that the rate has those that were open at its end.
    pub(crate) fn counts_request(&self, start: Instant) -> bool {
        let at = if self.plan.is_open_loop() { start } else { self.now };
        self.counted_from.is_some_and(|from| at >= from)
    }

    /// Begins what counts.
    pub(crate) fn count_from(&mut self, start: Instant) {
        self.counted_from = Some(start);
        if let Some(interval) = &mut self.interval {
            interval.begin(start);
        }
    }

    /// Reports the intervals that have ended, with the number of open connections.
    pub(crate) fn end_intervals(&mut self, connections: u64) {
        while let Some(interval) = &mut self.interval
            && let Some(part) = interval.ended(self.now, &self.tally, connections)
        {
            self.say(Line::Part(Box::new(part)));
        }
    }

    /// Reports what is left of the last interval.
    pub(crate) fn end_last_interval(&mut self, connections: u64) {
        if let Some(interval) = &mut self.interval {
            let part = interval.last(self.now, &self.tally, connections);
            self.say(Line::Part(Box::new(part)));
        }
    }

    /// Counts the time of a request that has its response.
    pub(crate) fn count_time(&mut self, start: Instant) {
        let time = self.now.saturating_duration_since(start);
        self.tally.request.add_time(time);
        if let Some(interval) = &mut self.interval {
            interval.add(time);
        }
    }

    /// Counts a request that was sent.
    pub(crate) fn count_started(&mut self, start: Instant) {
        self.open_requests += 1;
        self.tally.started += u64::from(self.counts_request(start));
    }

    /// Gives up requests that will have no response: they count as failed. Returns how many of them count.
    pub(crate) fn abandon(&mut self, starts: &[Instant]) -> u64 {
        self.open_requests -= starts.len() as u64;
        let mut abandoned = 0;
        for start in starts {
            if self.counts_request(*start) {
                abandoned += 1;
                if let Some(log) = &mut self.log {
                    log.write(*start, None, self.now);
                }
            }
        }
        self.tally.abandon(abandoned);
        abandoned
    }

    /// Passes a line on. Nobody reads it once the run has ended.
    pub(crate) fn say(&self, line: Line) {
        let _ = self.lines.send(line);
    }

    /// Passes a note on if the user wants to know all.
    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        if self.plan.options.verbose {
            self.say(Line::Note(text()));
        }
    }

    /// Counts the bytes of a response's head.
    pub(crate) fn count_head(&mut self, head: &CountedHead) {
        self.tally.bytes_head += head.encoded;
        self.tally.bytes_head_plain += head.plain;
    }

    /// Counts a request that has ended, and reports progress.
    pub(crate) fn count_done(&mut self) {
        self.tally.done += 1;
        let done = self.tally.done;
        if let Some(step) = self.progress_step
            && done.is_multiple_of(step)
        {
            let percent = done * 100 / self.tally.total.max(1);
            self.say(Line::Report(format!("progress: {percent}% done")));
        }
    }
}
