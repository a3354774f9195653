//! The page's figures of workers: sums over all, and samples of each.

use sluicegate_base::observe::metrics::{Page, Show};
use sluicegate_base::observe::sum::Sum;
use sluicegate_dataplane::{Counters as Datagrams, FrameCounters, InitialFilter};
use sluicegate_http::exchange::ring::Depth;
use sluicegate_http::origin;
use sluicegate_quic::connection_gauges::ConnectionGauges;
use sluicegate_quic::endpoint::InitialShares;

use crate::tcp;
use crate::worker::{EndpointCounters, TurnTimes, WorkerStats};

/// The last known figures of a worker and its origin thread.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) group: String,
    pub(super) index: String,
    /// Whether the worker responded to the last scrape in time.
    pub(super) up: bool,
    /// The worker's last reply. It is kept until the next one, so that counters never fall.
    pub(super) last: Box<WorkerStats>,
    /// The last reply of the origin thread, kept likewise.
    pub(super) origin: Box<origin::OriginCounters>,
    /// The last reply of the front over TCP, kept likewise.
    pub(super) tcp: Box<tcp::TcpCounters>,
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
        "1 if the worker responded to this scrape in time; otherwise its figures are those of its last response.",
    );
    for known in workers {
        page.sample(&known.labels(), u8::from(known.up));
    }
    show_drivers(workers, page);
    page.family("gauge", "sluicegate_worker_connections", "Connections of each worker.");
    for known in workers {
        page.sample(&known.labels(), known.last.gauges.open);
    }
    page.family(
        "gauge",
        "sluicegate_worker_initials_share",
        "Share of Initial packets that the kernel passes to the worker, 1 but in a flood; those of known senders are to a connection \
         ID of the server.",
    );
    for known in workers {
        let InitialShares { known: of_known, unknown } = known.last.initials;
        for (sender, share) in [("known", of_known), ("unknown", unknown)] {
            let [group, worker] = known.labels();
            let share = f64::from(share) / f64::from(InitialFilter::ALL);
            page.sample(&[group, worker, ("sender", sender)], share);
        }
    }
    let (mut endpoint_sum, mut gauges_sum, mut ring_sum) =
        <(EndpointCounters, ConnectionGauges, Depth)>::default();
    let mut turn_sum = TurnTimes::default();
    let mut tcp_sum = tcp::ConnectionCounters::default();
    for known in workers {
        let WorkerStats {
            backend: _,
            features: _,
            spin: _,
            endpoint,
            datagrams: _,
            gauges,
            initials: _,
            origin,
            times,
        } = &*known.last;
        endpoint_sum.add_up(endpoint);
        endpoint_sum.requests.add_up(&known.tcp.requests);
        tcp_sum.add_up(&known.tcp.connections);
        gauges_sum.add_up(gauges);
        ring_sum.add_up(origin);
        turn_sum.add_up(times);
    }
    gauges_sum.show(page);
    endpoint_sum.show(page);
    tcp_sum.show(page);
    ring_sum.show(page);
    turn_sum.show(page);
    let mut origin_sum = origin::OriginCounters::default();
    for known in workers {
        origin_sum.add_up(&known.origin);
    }
    origin_sum.show(page);
    show_datagrams(workers, page);
    show_frames(workers, page);
}

/// Writes what the driver of each worker is and uses. A worker that never responded has none.
fn show_drivers(workers: &[&Known], page: &mut Page) {
    page.family(
        "gauge",
        "sluicegate_worker_info",
        "1; the labels say which backend each worker has, which offloads and modes it uses, and whether it polls.",
    );
    for known in workers {
        let WorkerStats { backend, features, spin, .. } = &*known.last;
        if backend.is_empty() {
            continue;
        }
        let mut labels = known.labels().to_vec();
        labels.push(("backend", backend));
        let state = |on| if on { "1" } else { "0" };
        labels.extend(features.named().map(|(name, on)| (name, state(on))));
        labels.push(("spin", spin));
        page.sample(&labels, 1);
    }
}

/// Writes the driver's counters of each worker: they show whether one of them gets most of the load.
fn show_datagrams(workers: &[&Known], page: &mut Page) {
    for (index, (name, help, _)) in Datagrams::default().named().into_iter().enumerate() {
        page.family("counter", &format!("sluicegate_{name}"), help);
        for known in workers {
            let [group, worker] = known.labels();
            let labels = [group, worker, ("backend", known.last.backend)];
            let (_, _, value) = known.last.datagrams.named()[index];
            page.sample(&labels, value);
        }
    }
}

/// Function that returns a figure of a worker's port.
type PortFigure = fn(&FrameCounters) -> u64;

/// Writes the counters of the ports that workers drive themselves.
fn show_frames(workers: &[&Known], page: &mut Page) {
    let frames = || {
        workers.iter().filter_map(|known| {
            let [group, worker] = known.labels();
            let labels = [group, worker, ("backend", known.last.backend)];
            Some((labels, known.last.datagrams.frames?))
        })
    };
    let families: [(&str, &str, &str, PortFigure); 4] = [
        (
            "counter",
            "sluicegate_port_received_frames_total",
            "Frames that a port of DPDK received.",
            |frames| frames.received,
        ),
        (
            "counter",
            "sluicegate_port_sent_frames_total",
            "Frames that a port of DPDK sent.",
            |frames| frames.sent,
        ),
        (
            "counter",
            "sluicegate_port_send_errors_total",
            "Frames that a port of DPDK could not send.",
            |frames| frames.send_errors,
        ),
        (
            "gauge",
            "sluicegate_port_buffers_in_use",
            "Buffers of a worker's queue of a port of DPDK that are in use, those that wait for frames included.",
            |frames| frames.buffers_in_use,
        ),
    ];
    for (kind, name, help, value) in families {
        page.family(kind, name, help);
        for (labels, frames) in frames() {
            page.sample(&labels, value(&frames));
        }
    }
    page.family(
        "counter",
        "sluicegate_received_frames_dropped_total",
        "Frames received by a port of DPDK that were dropped, by reason.",
    );
    for ([group, worker, backend], frames) in frames() {
        for (reason, count) in frames.dropped() {
            page.sample(&[group, worker, backend, ("reason", reason)], count);
        }
    }
}
