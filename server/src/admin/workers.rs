//! The page's figures of workers: sums over all, and samples of each.

use sluicegate_dataplane::Counters as Datagrams;

use crate::http::exchange::ring::Depth;
use crate::http::proxy;
use crate::observe::metrics::{Page, Show};
use crate::observe::sum::Sum;
use crate::quic::connection_gauges::ConnectionGauges;
use crate::quic::counters::Counters;
use crate::worker::{TurnTimes, WorkerStats};

/// The last known figures of a worker and its origin thread.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) group: String,
    pub(super) index: String,
    /// Whether the worker answered the last scrape in time.
    pub(super) up: bool,
    /// The worker's last reply. It is kept until the next one, so that counters never fall.
    pub(super) last: Box<WorkerStats>,
    /// The last reply of the origin thread's proxy, kept likewise.
    pub(super) proxy: Box<proxy::Counters>,
}

impl Known {
    fn labels(&self) -> [(&'static str, &str); 2] {
        [("group", &self.group), ("worker", &self.index)]
    }
}

/// Writes the sums over all workers, and the samples of each.
pub(super) fn show(workers: &[&Known], page: &mut Page) {
    page.family(
        "gauge",
        "sluicegate_worker_up",
        "1 if the worker answered this scrape in time; if not, its figures are those of its last answer.",
    );
    for known in workers {
        page.sample(&known.labels(), u8::from(known.up));
    }
    page.family(
        "gauge",
        "sluicegate_worker_connections",
        "Connections of each worker.",
    );
    for known in workers {
        page.sample(&known.labels(), known.last.gauges.open);
    }
    let (mut endpoints, mut censuses, mut origins) =
        <(Counters, ConnectionGauges, Depth)>::default();
    let mut turns = TurnTimes::default();
    for known in workers {
        let WorkerStats {
            backend: _,
            endpoint,
            datagrams: _,
            gauges,
            origin,
            times,
        } = &*known.last;
        endpoints.add_up(endpoint);
        censuses.add_up(gauges);
        origins.add_up(origin);
        turns.add_up(times);
    }
    censuses.show(page);
    endpoints.show(page);
    origins.show(page);
    turns.show(page);
    let mut proxies = proxy::Counters::default();
    for known in workers {
        proxies.add_up(&known.proxy);
    }
    proxies.show(page);
    show_datagrams(workers, page);
}

/// Writes the driver's counters of each worker: they show whether one of them gets most of the load.
fn show_datagrams(workers: &[&Known], page: &mut Page) {
    for (index, (name, help, _)) in named(&Datagrams::default()).iter().enumerate() {
        page.family("counter", name, help);
        for known in workers {
            let [group, worker] = known.labels();
            let labels = [group, worker, ("backend", known.last.backend)];
            let (_, _, value) = named(&known.last.datagrams)[index];
            page.sample(&labels, value);
        }
    }
}

/// Returns the driver's counters with their names and help.
#[expect(clippy::too_many_lines, reason = "a table with an entry per counter")]
fn named(datagrams: &Datagrams) -> [(&'static str, &'static str, u64); 14] {
    let Datagrams {
        rx_datagrams,
        rx_buffers,
        rx_bytes,
        rx_truncated,
        rx_errors,
        tx_datagrams,
        tx_buffers,
        tx_bytes,
        tx_errors,
        tx_gso_fallbacks,
        rx_exhausted,
        rx_port_zero,
        rx_overflows,
        events_lost,
    } = *datagrams;
    [
        (
            "sluicegate_received_datagrams_total",
            "Datagrams received.",
            rx_datagrams,
        ),
        (
            "sluicegate_received_buffers_total",
            "Messages received, each with one datagram or, by GRO, several.",
            rx_buffers,
        ),
        (
            "sluicegate_received_bytes_total",
            "UDP payload received.",
            rx_bytes,
        ),
        (
            "sluicegate_received_datagrams_truncated_total",
            "Datagrams dropped because they did not fit a buffer.",
            rx_truncated,
        ),
        (
            "sluicegate_receive_errors_total",
            "Receive attempts that failed.",
            rx_errors,
        ),
        (
            "sluicegate_receive_buffers_exhausted_total",
            "Times that no buffer was left to receive into.",
            rx_exhausted,
        ),
        (
            "sluicegate_received_datagrams_port_zero_total",
            "Datagrams dropped because their source port is 0.",
            rx_port_zero,
        ),
        (
            "sluicegate_receive_overflows_total",
            "Datagrams that the kernel dropped because the socket's receive buffer was full.",
            rx_overflows,
        ),
        (
            "sluicegate_sent_datagrams_total",
            "Datagrams sent.",
            tx_datagrams,
        ),
        (
            "sluicegate_sent_buffers_total",
            "Messages sent, each with one datagram or, by GSO, several.",
            tx_buffers,
        ),
        ("sluicegate_sent_bytes_total", "UDP payload sent.", tx_bytes),
        (
            "sluicegate_send_errors_total",
            "Messages that the system refused to send, and that were dropped.",
            tx_errors,
        ),
        (
            "sluicegate_send_gso_fallbacks_total",
            "GSO batches that had to be sent datagram by datagram.",
            tx_gso_fallbacks,
        ),
        (
            "sluicegate_path_events_lost_total",
            "Reports of the network's trouble that were dropped because too many came at once.",
            events_lost,
        ),
    ]
}
