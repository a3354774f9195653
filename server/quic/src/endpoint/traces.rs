//! Traces of connections: sampled ones, and others that an operator asks for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sluicegate_base::observe::connections::ClientFilter;
use sluicegate_base::observe::qlog::{FileFate, TraceName, TracePart};
use sluicegate_config::QlogLevel;

use super::Endpoint;
use crate::application::Application;
use crate::connection::TraceLabels;
use crate::recorder::Trigger;

/// Connections that are traced from their beginnings.
#[derive(Debug)]
pub enum NextConnections {
    /// Those from some clients, from their first packets on, whether the addresses are proved or not.
    From(ClientFilter),
    /// Those that ask for a server name, from the moment when they have asked.
    Named(String),
}

/// An operator's wish for traces of the next connections. All workers share it.
#[derive(Debug)]
pub struct TraceWatch {
    connections: NextConnections,
    until: Instant,
    left: AtomicUsize,
}

impl TraceWatch {
    /// Asks for the first `count` of such connections until a time.
    pub fn new(connections: NextConnections, count: usize, until: Instant) -> Self {
        TraceWatch { connections, until, left: AtomicUsize::new(count) }
    }

    /// Returns whether it asks for no more connections.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until || self.left.load(Ordering::Relaxed) == 0
    }

    /// Takes one of the connections that it has left. Returns whether there was one.
    fn take(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Connections that an operator wants to be traced.
#[derive(Debug, Default)]
pub struct TraceOrder {
    /// Running connections, by connection IDs.
    pub running: Vec<Vec<u8>>,
    /// Connections to come.
    pub next: Option<Arc<TraceWatch>>,
    /// Of the running ones, what the flight recorder has is written, and no more.
    pub recorded: bool,
}

/// A running connection of an order.
#[derive(Clone, Debug)]
pub struct OrderedTrace {
    /// Connection ID that the client chose first.
    pub id: Vec<u8>,
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Address of the client.
    pub client: SocketAddr,
    /// Congestion control algorithm.
    pub algorithm: &'static str,
    /// What became of it.
    pub outcome: TraceOutcome,
}

/// What became of an order for a connection.
#[derive(Clone, Debug)]
pub enum TraceOutcome {
    /// A trace has begun.
    Begun(FileFate),
    /// A trace that had begun before goes on.
    GoesOn(FileFate),
    /// What was recorded of it is on its way to a file.
    Recorded(FileFate),
    /// There are as many traces as there may be.
    Refused,
}

impl TraceOutcome {
    /// Returns the file, if there is to be one.
    pub fn file(&self) -> Option<&FileFate> {
        match self {
            TraceOutcome::Begun(file)
            | TraceOutcome::GoesOn(file)
            | TraceOutcome::Recorded(file) => Some(file),
            TraceOutcome::Refused => None,
        }
    }
}

impl<A: Application> Endpoint<A> {
    /// Traces what an operator wants to be traced. Returns the running connections that are this worker's.
    pub fn trace(&mut self, order: TraceOrder, now: Instant) -> Vec<OrderedTrace> {
        self.watches.retain(|watch| !watch.is_over(now));
        self.watches.extend(order.next);
        let traced =
            order.running.iter().filter_map(|id| self.trace_running(id, order.recorded, now));
        traced.collect()
    }

    fn trace_running(&mut self, id: &[u8], recorded: bool, now: Instant) -> Option<OrderedTrace> {
        let slot = self.connections.find(id)?;
        let connection = self.connections.get(slot)?;
        let original = connection.original_id().to_vec();
        let begun = match connection.trace_file() {
            _ if recorded => self.dump(slot, Trigger::Operator, now).map(TraceOutcome::Recorded),
            Some(trace) => Some(TraceOutcome::GoesOn(trace)),
            None => self.trace_from_now(slot, &original, now).map(TraceOutcome::Begun),
        };
        let outcome = begun.unwrap_or(TraceOutcome::Refused);
        let connection = self.connections.get(slot)?;
        Some(OrderedTrace {
            id: original,
            listener: self.name_of(connection.listener),
            client: connection.address.socket(),
            algorithm: connection.algorithm,
            outcome,
        })
    }

    /// Begins a trace of a connection that was just accepted where the sample or an operator says so.
    pub(super) fn trace_accepted(&mut self, slot: usize, original_dcid: &[u8], now: Instant) {
        let Some(tracing) = &self.settings.tracing else {
            return;
        };
        let rate = tracing.sampler.rate();
        if tracing.sampler.samples(original_dcid) {
            self.trace_from_beginning(slot, original_dcid, &format!("sample_rate={rate}"));
            return;
        }
        let Some(connection) = self.connections.get(slot).filter(|_| !self.watches.is_empty())
        else {
            return;
        };
        let client = connection.address.socket();
        let is_wanted = |watch: &NextConnections| match watch {
            NextConnections::From(filter) => filter.has(client),
            NextConnections::Named(_) => false,
        };
        if self.take_watched(is_wanted, now) {
            self.trace_from_beginning(slot, original_dcid, "on_request=true");
        }
    }

    /// Begins the trace of a connection that was just accepted.
    fn trace_from_beginning(&mut self, slot: usize, original_dcid: &[u8], cause: &str) {
        let begun = self.begin_trace(slot, original_dcid, None, cause);
        if let Some(connection) = self.connections.get_mut(slot).filter(|_| begun.is_some()) {
            let (wait, since) = connection.account().wait();
            connection.trace_wait(wait, since);
        }
    }

    /// Begins a trace of a connection where an operator has asked for those with its server name.
    pub(super) fn trace_named(&mut self, slot: usize, now: Instant) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        // Its name is told once, early in the handshake.
        if !connection.is_half_open() || connection.was_offered_trace {
            return;
        }
        let Some(name) = connection.server_name().map(str::to_owned) else {
            return;
        };
        let is_traced = connection.trace_file().is_some();
        let original = connection.original_id().to_vec();
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.was_offered_trace = true;
        }
        let is_wanted = |watch: &NextConnections| match watch {
            NextConnections::Named(wanted) => wanted.eq_ignore_ascii_case(&name),
            NextConnections::From(_) => false,
        };
        if self.take_watched(is_wanted, now) && !is_traced {
            self.trace_from_now(slot, &original, now);
        }
    }

    /// Takes a connection of the first watch that wants it. Returns whether one does.
    fn take_watched(&mut self, is_wanted: impl Fn(&NextConnections) -> bool, now: Instant) -> bool {
        self.watches.retain(|watch| !watch.is_over(now));
        let mut wanting = self.watches.iter().filter(|watch| is_wanted(&watch.connections));
        wanting.any(|watch| watch.take())
    }

    /// Begins a trace in the middle of a connection. Returns the name of its file; `None` if there are too many.
    fn trace_from_now(
        &mut self,
        slot: usize,
        original_dcid: &[u8],
        now: Instant,
    ) -> Option<FileFate> {
        let age = self.connections.get(slot)?.account().age(now);
        let trace = self.begin_trace(slot, original_dcid, Some(age), "on_request=true")?;
        self.connections.get_mut(slot)?.trace_state(now);
        Some(trace)
    }

    /// Begins a trace, with what its description says of its cause. Returns `None` if there are too many.
    fn begin_trace(
        &mut self,
        slot: usize,
        original_dcid: &[u8],
        age: Option<Duration>,
        cause: &str,
    ) -> Option<FileFate> {
        let connection = self.connections.get_mut(slot)?;
        let tracing = self.settings.tracing.as_ref()?;
        let listener = self.settings.listeners.get(&connection.listener)?;
        let algorithm = connection.algorithm;
        let part = age.map_or(TracePart::Whole, TracePart::From);
        let name = TraceName { original_dcid, listener: &listener.name, algorithm, part };
        let trace = tracing.writer.open(&name, b"")?;
        let file = trace.handle().fate();
        let labels = TraceLabels {
            title: format!("sluicegate {}", listener.name),
            description: format!(
                "listener={} congestion_control={algorithm} {cause}",
                listener.name
            ),
            level: match tracing.level {
                QlogLevel::Core => quiche::QlogLevel::Core,
                QlogLevel::Base => quiche::QlogLevel::Base,
                QlogLevel::Extra => quiche::QlogLevel::Extra,
            },
            visible: tracing.visible.clone(),
        };
        connection.write_trace(trace, labels);
        Some(file)
    }
}

#[cfg(test)]
mod tests;
