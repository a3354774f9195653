//! The page against a file. Names, labels and help are an interface: operators' dashboards and alerts rest on them.

use std::sync::Arc;

use sluicegate_base::observe::access::CurrentAccess;
use sluicegate_base::observe::metrics::Label;
use sluicegate_base::observe::qlog::CurrentTraces;
use sluicegate_base::observe::telemetry::{CurrentSpans, ExportError, Span, SpanSink};
use sluicegate_config::{Config, LogTarget};
use sluicegate_http::auth;
use sluicegate_http::exchange::compress::{self, Algorithm};
use sluicegate_http::gate::HttpVersion;
use sluicegate_http::origin::{self, OriginCommand};
use sluicegate_http::proxy::{self, Failure, udp};
use sluicegate_quic::congestion::path_table::Resumption;
use sluicegate_quic::counters::{DropReason, HandshakeFailure, RefusalReason};
use sluicegate_quic::ecn::EcnFailure;
use sluicegate_quic::ended_connections::ConnectionClass;
use sluicegate_quic::token::NewTokenRefusal;

use super::*;
use crate::worker::EndpointCounters;

/// Numbers each figure differently, so that a sample under a wrong name shows.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

fn filled_endpoint(n: &mut Numbers) -> EndpointCounters {
    let mut filled = EndpointCounters::default();
    let (all, requests) = (&mut filled.quic, &mut filled.requests);
    for figure in [
        &mut all.accepted,
        &mut all.established,
        &mut all.unfinished[HandshakeFailure::Timeout],
        &mut all.handshake_timeouts,
        &mut all.retries,
        &mut all.negotiations,
        &mut all.resets,
        &mut all.refusals,
        &mut all.refused[RefusalReason::Client],
        &mut all.bad_tokens,
        &mut all.guarded,
        &mut all.misrouted,
        &mut requests.requests,
        &mut requests.bytes_out,
        &mut requests.bytes_in,
        &mut requests.malformed,
        &mut requests.cancelled,
        &mut requests.gate.rejected,
        &mut requests.gate.from_memory,
        &mut requests.gate.overloaded,
        &mut requests.gate.too_early,
        &mut requests.broken,
        &mut requests.errors,
    ] {
        *figure = n.next();
    }
    all.by_algorithm.insert("bbr3", n.next());
    all.by_algorithm.insert("cubic", n.next());
    for (index, reason) in DropReason::ALL.iter().copied().enumerate() {
        for _ in 0..=index {
            all.on_drop(reason);
        }
    }
    (requests.stalled_responses, requests.stalled_bodies) = (31, 32);
    (all.new_tokens_sent, all.new_tokens_accepted) = (33, 34);
    all.new_tokens_refused[NewTokenRefusal::Used] = 35;
    (all.ecn.ce_received, all.ecn.ce_reported) = (36, 37);
    (all.ecn.validated, all.ecn.failed[EcnFailure::Cleared]) = (38, 39);
    all.careful_resume[Resumption::Jumped] = 40;
    all.careful_resume[Resumption::Retreated] = 41;
    requests.responses.record(200);
    requests.responses.record(404);
    requests.on_complete(HttpVersion::Http3, 20_000, Duration::from_millis(3));
    requests.first_byte[HttpVersion::Http2].record(0.002);
    let class = ConnectionClass { listener: "edge".into(), algorithm: "bbr3" };
    let ended = all.ended.entry(class).or_default();
    ended.rtt.record(0.03);
    ended.lost.record(0.0);
    ended.retransmitted.record(0.015);
    ended.delivery_rate.record(2e6);
    ended.probe_timeouts.record(1.0);
    filled
}

fn filled_stats() -> WorkerStats {
    let mut n = Numbers(1000);
    let mut stats = stats();
    stats.endpoint = filled_endpoint(&mut n);
    stats.initials.unknown /= 4;
    let (net, ring) = (&mut stats.datagrams, &mut stats.origin);
    for figure in [
        &mut net.rx_datagrams,
        &mut net.rx_messages,
        &mut net.rx_bytes,
        &mut net.rx_truncated,
        &mut net.rx_errors,
        &mut net.tx_datagrams,
        &mut net.tx_messages,
        &mut net.tx_bytes,
        &mut net.tx_errors,
        &mut net.tx_gso_fallbacks,
        &mut net.rx_buffers_exhausted,
        &mut stats.gauges.open,
        &mut stats.gauges.half_open,
        &mut ring.to_origin,
        &mut ring.overflow,
        &mut ring.from_origin,
        &mut ring.capacity,
        &mut ring.running,
        &mut ring.promised,
        &mut ring.counters.opened,
        &mut ring.counters.refused_queue,
        &mut ring.counters.refused_memory,
        &mut ring.counters.refused_client,
        &mut ring.counters.waited,
    ] {
        *figure = n.next();
    }
    stats
}

fn filled_origin() -> origin::OriginCounters {
    let mut compress = compress::CompressionCounters::default();
    let mut n = Numbers(3000);
    for algorithm in Algorithm::ALL {
        for figure in [&mut compress.begun, &mut compress.input, &mut compress.output] {
            figure[*algorithm] = n.next();
        }
    }
    compress.skipped = n.next();
    compress.memory = n.next();
    origin::OriginCounters {
        proxy: filled_proxy(),
        udp: udp::UdpTunnelCounters::default(),
        compress,
        passwords: auth::AuthCounters::default(),
    }
}

fn filled_proxy() -> proxy::ProxyCounters {
    let mut n = Numbers(2000);
    let mut all = proxy::ProxyCounters::default();
    for figure in [
        &mut all.requests,
        &mut all.refused,
        &mut all.answered,
        &mut all.cancelled,
        &mut all.early_answers,
        &mut all.retries,
        &mut all.lookups,
        &mut all.opened,
        &mut all.reused,
        &mut all.idle_closed,
        &mut all.idle_dropped,
    ] {
        *figure = n.next();
    }
    for failure in Failure::ALL {
        all.failures[*failure] = n.next();
    }
    for address in ["192.0.2.1:80", "192.0.2.2:80"] {
        let mut state = proxy::UpstreamCounters::default();
        for figure in [
            &mut state.active,
            &mut state.connections,
            &mut state.idle,
            &mut state.out,
            &mut state.failures,
        ] {
            *figure = n.next();
        }
        all.upstreams.insert(address.to_owned(), state);
    }
    all
}

/// Takes no spans.
struct NoCollector;

impl SpanSink for NoCollector {
    fn export(&mut self, _: &[Span]) -> Result<u64, ExportError> {
        Ok(0)
    }
}

/// Returns a page on which every family has a sample, each with a figure of its own.
pub(super) fn page() -> String {
    let folder = tempfile::tempdir().unwrap();
    let traces = CurrentTraces::default();
    let tracing = sluicegate_config::Qlog {
        sample_rate: 1.0,
        directory: Some(folder.path().join("qlog")),
        ..Config::embedded().qlog
    };
    traces.set(&tracing, traces.prepare(&tracing).unwrap());
    let settings = sluicegate_config::AccessLog {
        file: Some(LogTarget::File(folder.path().join("access.log"))),
        ..Config::embedded().access_log
    };
    let access = CurrentAccess::default();
    access.set(&settings, access.prepare(&settings).unwrap());
    let telemetry = Config::embedded().telemetry;
    let spans = CurrentSpans::default();
    spans.set(&telemetry, Some(spans.prepare(&telemetry, Box::new(NoCollector)).unwrap()));
    let scraper = Scraper::new(Sources {
        traces: Arc::new(traces),
        access: Arc::new(access),
        spans: Arc::new(spans),
        ..Sources::default()
    });
    let (mut watched, mailbox) = worker("a", 0);
    let (origin, mut commands) = tokio::sync::mpsc::unbounded_channel();
    watched.origin = origin;
    scraper.watch(vec![watched]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let work = async {
        tokio::task::yield_now().await;
        assert!(reply(&mailbox, filled_stats()));
        match commands.recv().await {
            Some(OriginCommand::Report(reply)) => reply.send(Box::new(filled_origin())).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let (page, ()) = runtime.block_on(async { tokio::join!(scraper.page(), work) });
    page.unwrap()
}

/// Returns the page without the values that differ from run to run: those of this process.
fn without_own_figures(page: &str) -> String {
    let own = ["process_", "sluicegate_allocator_", "sluicegate_uptime_"];
    let lines = page.lines().map(|line| {
        if own.iter().any(|prefix| line.starts_with(prefix)) {
            line.split(' ').next().unwrap_or_default()
        } else {
            line
        }
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// A new metric needs no line in the file; one that is in it changes only with a line in CHANGELOG.md.
#[test]
fn names_labels_and_help_of_the_page_stay() {
    let page = without_own_figures(&page());
    let known = include_str!("metrics.txt");
    let missing: Vec<&str> =
        known.lines().filter(|line| page.lines().all(|found| found != *line)).collect();
    assert!(missing.is_empty(), "{missing:#?} not in {page}");
}
