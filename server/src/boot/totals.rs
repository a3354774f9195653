//! Totals over all workers, logged when the server stops.

use sluicegate_base::observe::metrics::Label;
use sluicegate_base::observe::sum::Sum;
use sluicegate_dataplane::Counters as Datagrams;
use sluicegate_quic::counters::{DropReason, RefusalReason};

use crate::worker::{EndpointCounters, WorkerStats};

/// Sums over the workers that have stopped.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    endpoints: EndpointCounters,
    datagrams: Datagrams,
    workers: u64,
}

impl Totals {
    /// Adds the counters of a worker.
    pub(super) fn add(&mut self, stats: &WorkerStats) {
        self.workers += 1;
        self.endpoints.add_up(&stats.endpoint);
        self.datagrams += &stats.datagrams;
    }

    /// Adds the requests of a front over TCP.
    pub(super) fn add_front(&mut self, counters: &crate::tcp::TcpCounters) {
        self.endpoints.requests.add_up(&counters.requests);
    }

    /// Writes the totals to the log, a line for each subject, and for each reason that refused connections or dropped datagrams.
    pub(super) fn log(&self) {
        let (all, requests, net) =
            (&self.endpoints.quic, &self.endpoints.requests, &self.datagrams);
        tracing::info!(
            accepted = all.accepted,
            established = all.established,
            handshakes_failed = all.unfinished.total(),
            handshake_timeouts = all.handshake_timeouts,
            refused = all.refused.total(),
            refusals = all.refusals,
            retries = all.retries,
            bad_tokens = all.bad_tokens,
            new_tokens = all.new_tokens_sent,
            new_tokens_accepted = all.new_tokens_accepted,
            version_negotiations = all.negotiations,
            resets = all.resets,
            misrouted = all.misrouted,
            guarded = all.guarded,
            "total of connections"
        );
        for (algorithm, count) in &all.by_algorithm {
            tracing::info!(%algorithm, count, "connections by algorithm");
        }
        tracing::info!(
            requests = requests.requests,
            status_2xx = requests.responses.class(2),
            status_3xx = requests.responses.class(3),
            status_4xx = requests.responses.class(4),
            status_5xx = requests.responses.class(5),
            malformed = requests.malformed,
            cancelled = requests.cancelled,
            rejected = requests.gate.rejected,
            errors = requests.errors,
            bytes_in = requests.bytes_in,
            bytes_out = requests.bytes_out,
            "total of requests"
        );
        tracing::info!(
            workers = self.workers,
            received = net.rx_datagrams,
            received_bytes = net.rx_bytes,
            truncated = net.rx_truncated,
            receive_errors = net.rx_errors,
            receive_buffers_exhausted = net.rx_buffers_exhausted,
            sent = net.tx_datagrams,
            sent_bytes = net.tx_bytes,
            send_errors = net.tx_errors,
            gso_fallbacks = net.tx_gso_fallbacks,
            "total of datagrams"
        );
        for reason in RefusalReason::ALL.iter().copied() {
            let count = all.refused[reason];
            if count > 0 {
                tracing::info!(reason = reason.name(), count, "connections refused");
            }
        }
        for reason in DropReason::ALL.iter().copied() {
            let count = all.dropped[reason];
            if count > 0 {
                tracing::info!(reason = reason.name(), count, "datagrams dropped");
            }
        }
    }
}
