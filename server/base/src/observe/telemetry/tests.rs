use std::sync::Mutex;
use std::time::Duration;

use sluicegate_config::{Config, Telemetry};

use super::exporter::Exporter;
use super::*;
use crate::observe::access::Outcome;
use crate::observe::account::WaitTimes;
use crate::observe::background::Job;

const LIMIT: Duration = Duration::from_secs(30);

/// Responds to batches in the order of `verdicts`, and then takes all.
#[derive(Clone, Debug, Default)]
struct Collector {
    verdicts: Arc<Mutex<Vec<Result<u64, ExportError>>>>,
    /// Number of spans in each batch.
    batches: Arc<Mutex<Vec<usize>>>,
    /// While somebody holds it, a batch takes long.
    busy: Arc<Mutex<()>>,
}

impl Collector {
    fn refusing(verdicts: impl IntoIterator<Item = ExportError>) -> Collector {
        let collector = Collector::default();
        let mut verdicts: Vec<_> = verdicts.into_iter().map(Err).collect();
        verdicts.reverse();
        *collector.verdicts.lock().unwrap() = verdicts;
        collector
    }

    fn batches(&self) -> Vec<usize> {
        self.batches.lock().unwrap().clone()
    }
}

impl SpanSink for Collector {
    fn export(&mut self, spans: &[Span]) -> Result<u64, ExportError> {
        self.batches.lock().unwrap().push(spans.len());
        let _busy = self.busy.lock().unwrap();
        self.verdicts.lock().unwrap().pop().unwrap_or(Ok(0))
    }
}

fn error(is_transient: bool) -> ExportError {
    ExportError { cause: "down".to_owned(), is_transient, is_too_large: false, pause: None }
}

fn span() -> Span {
    let context = TraceContext { trace_id: [1; 16], span_id: [2; 8], is_sampled: true };
    Span {
        start: SpanStart { context, parent: None, state: String::new() },
        received: Duration::from_secs(1),
        duration: Duration::ZERO,
        client: "192.0.2.1:5000".parse().unwrap(),
        proxy: None,
        listener: "l".into(),
        protocol: "HTTP/3",
        scheme: "https",
        method: "GET".to_owned(),
        authority: "example.org".to_owned(),
        path: "/".to_owned(),
        query: None,
        route: None,
        status: Some(200),
        bytes_sent: 0,
        bytes_received: 0,
        user_agent: None,
        request_id: None,
        connection: Box::default(),
        outcome: Outcome::Complete,
        cause: None,
        waits: WaitTimes::default(),
        upstream: None,
    }
}

/// Returns exported, dropped for the queue, dropped for the collector, and failed.
fn totals(counters: &SpanCounters) -> [u64; 4] {
    let SpanCounters { exported, dropped_queue, dropped_collector, rejected: _, failed } = counters;
    [exported, dropped_queue, dropped_collector, failed].map(|one| one.load(Ordering::Relaxed))
}

fn exporter(collector: &Collector) -> (Exporter, Arc<SpanCounters>) {
    let counters = Arc::new(SpanCounters::default());
    (Exporter::new(Box::new(collector.clone()), 8 << 20, Arc::clone(&counters)), counters)
}

#[test]
fn spans_of_all_workers_are_sent_before_the_thread_ends() {
    let collector = Collector::default();
    let counters = Arc::new(SpanCounters::default());
    let sink = Box::new(collector.clone());
    let writer = SpanWriter::start(sink, 1 << 20, true, Arc::clone(&counters)).unwrap();
    let (mut one, mut other) = (writer.spans(), writer.spans());
    assert!(one.has_queries());
    (0..100).for_each(|_| one.record(span()));
    other.record(span());
    drop((one, other));
    assert!(writer.shutdown(LIMIT));
    assert_eq!(totals(&counters), [101, 0, 0, 0]);
    assert_eq!(collector.batches().iter().sum::<usize>(), 101);
    assert_eq!(writer.queued_bytes(), 0);
}

#[test]
fn full_queue_drops_spans_and_counts_them() {
    let collector = Collector::default();
    let counters = Arc::new(SpanCounters::default());
    let sink = Box::new(collector.clone());
    let queue = 64 << 10;
    let writer = SpanWriter::start(sink, queue, false, Arc::clone(&counters)).unwrap();
    let mut spans = writer.spans();
    let busy = collector.busy.lock().unwrap();
    let most = 600 + queue / span().size();
    for _ in 0..2 * most {
        spans.record(span());
    }
    assert!(writer.queued_bytes() <= queue);
    drop((spans, busy));
    assert!(writer.shutdown(LIMIT));
    let [exported, dropped, _, _] = totals(&counters);
    assert!(dropped > 0 && exported > 0 && exported + dropped == 2 * most, "{counters:?}");
}

#[test]
fn batch_that_may_succeed_later_is_sent_again_after_a_pause() {
    let collector = Collector::refusing([error(true), error(true)]);
    let (mut exporter, counters) = exporter(&collector);
    exporter.take(vec![span(); 600]);
    assert_eq!(totals(&counters), [0, 0, 0, 1]);
    let first = exporter.resume().unwrap();
    assert!(first > Duration::from_millis(300) && first <= Duration::from_secs(1), "{first:?}");
    exporter.skip_pause();
    let second = exporter.resume().unwrap();
    assert!(second > Duration::from_millis(800) && second <= Duration::from_secs(2), "{second:?}");
    exporter.skip_pause();
    assert_eq!(exporter.resume(), None);
    assert_eq!(totals(&counters), [600, 0, 0, 2]);
    assert_eq!(collector.batches(), [512, 512, 512, 88]);
}

#[test]
fn batches_of_long_texts_have_fewer_spans() {
    let collector = Collector::default();
    let (mut exporter, counters) = exporter(&collector);
    let long = |bytes| Span { path: "a".repeat(bytes), ..span() };
    exporter.take(vec![long(100 << 10); 4]);
    assert_eq!(collector.batches(), [0; 0]);
    exporter.take(vec![long(100 << 10); 7]);
    exporter.take(vec![long(600 << 10), span()]);
    assert_eq!(collector.batches(), [5, 5, 1, 1, 1]);
    assert_eq!(totals(&counters), [13, 0, 0, 0]);
}

#[test]
fn batch_that_is_too_large_is_halved_at_once() {
    let too_large = ExportError { is_too_large: true, ..error(false) };
    let collector = Collector::refusing(vec![too_large.clone(); 2]);
    let (mut exporter, counters) = exporter(&collector);
    exporter.take(vec![span(); 512]);
    assert_eq!(exporter.resume(), None, "no pause");
    let batches = collector.batches();
    assert_eq!((batches[0], batches[1], batches[2]), (512, 256, 128));
    assert_eq!(batches[2..].iter().sum::<usize>(), 512, "{batches:?}");
    assert!(batches[3] > 128, "they grow again: {batches:?}");
    assert_eq!(totals(&counters), [512, 0, 0, 2]);
    // One span that is too large by itself is dropped.
    let (mut exporter, counters) = self::exporter(&Collector::refusing([too_large]));
    exporter.take(vec![span()]);
    exporter.on_idle();
    assert_eq!(totals(&counters), [0, 0, 1, 1]);
}

#[test]
fn rejected_spans_do_not_count_as_exported() {
    let collector = Collector::default();
    collector.verdicts.lock().unwrap().push(Ok(12));
    let (mut exporter, counters) = exporter(&collector);
    exporter.take(vec![span(); 512]);
    assert_eq!(totals(&counters), [500, 0, 0, 0]);
    assert_eq!(counters.rejected.load(Ordering::Relaxed), 12);
}

#[test]
fn spans_that_wait_count_against_the_queue_until_they_are_sent_and_have_short_texts() {
    let collector = Collector::default();
    let counters = Arc::new(SpanCounters::default());
    let sink = Box::new(collector.clone());
    let writer = SpanWriter::start(sink, 8 << 20, false, counters).unwrap();
    let busy = collector.busy.lock().unwrap();
    let mut spans = writer.spans();
    let long = "\u{e4}".repeat(40_000);
    let agent = Some(vec![b'a'; 80_000]);
    for _ in 0..HANDED {
        spans.record(Span { path: long.clone(), user_agent: agent.clone(), ..span() });
    }
    let most = HANDED as u64 * (span().size() + 2 * MAX_TEXT as u64);
    assert!((most / 2..=most).contains(&writer.queued_bytes()), "{}", writer.queued_bytes());
    drop((spans, busy));
    assert!(writer.shutdown(LIMIT));
    assert_eq!(writer.queued_bytes(), 0);
}

#[test]
fn batch_is_dropped_after_several_attempts_or_if_none_may_succeed() {
    let collector = Collector::refusing(vec![error(true); 5]);
    let (mut failing, counters) = exporter(&collector);
    failing.take(vec![span(); 512]);
    while failing.resume().is_some() {
        failing.skip_pause();
    }
    assert_eq!(totals(&counters), [0, 0, 512, 5]);
    let (mut refused, counters) = exporter(&Collector::refusing([error(false)]));
    refused.take(vec![span(); 512]);
    assert_eq!(totals(&counters), [0, 0, 512, 1]);
    assert!(refused.resume().is_some(), "a collector that refuses is not asked all the time");
}

#[test]
fn pause_that_the_collector_asks_for_is_bounded() {
    for (asked, least, most) in [(0, 400, 1000), (5, 4900, 5000), (86_400, 29_900, 30_000)] {
        let pause = Some(Duration::from_secs(asked));
        let (mut exporter, _) =
            exporter(&Collector::refusing([ExportError { pause, ..error(true) }]));
        exporter.take(vec![span(); 512]);
        let pause = exporter.resume().unwrap();
        let bounds = Duration::from_millis(least)..=Duration::from_millis(most);
        assert!(bounds.contains(&pause), "{asked}: {pause:?}");
    }
}

#[test]
fn at_the_end_nothing_is_tried_twice() {
    let collector = Collector::refusing(vec![error(true); 9]);
    let (mut exporter, counters) = exporter(&collector);
    exporter.take(vec![span(); 10]);
    exporter.on_close();
    exporter.take(vec![span(); 600]);
    exporter.take(vec![span(); 600]);
    exporter.end();
    assert_eq!(collector.batches(), [512], "the first failure is the last attempt");
    assert_eq!(totals(&counters), [0, 0, 1210, 1]);
}

#[test]
fn few_spans_are_sent_when_nothing_follows() {
    let collector = Collector::default();
    let (mut exporter, counters) = exporter(&collector);
    exporter.take(vec![span()]);
    assert_eq!(collector.batches(), [0; 0]);
    exporter.on_idle();
    exporter.on_idle();
    assert_eq!((collector.batches(), totals(&counters)), (vec![1], [1, 0, 0, 0]));
}

#[test]
fn reload_keeps_the_writer_of_the_same_settings_and_ends_others_once_unused() {
    let current = CurrentSpans::default();
    let settings = Telemetry {
        endpoint: Some("http://[::1]:1/v1/traces".to_owned()),
        ..Config::embedded().telemetry
    };
    let collector = Collector::default();
    let prepare =
        |settings: &Telemetry| current.prepare(settings, Box::new(collector.clone())).unwrap();
    let first = prepare(&settings);
    current.set(&settings, Some(Arc::clone(&first)));
    assert!(Arc::ptr_eq(&first, &prepare(&settings)));
    let changed = Telemetry { query: true, ..settings.clone() };
    let mut of_a_worker = first.spans();
    let second = prepare(&changed);
    assert!(!Arc::ptr_eq(&first, &second) && second.spans().has_queries());
    current.set(&changed, Some(second));
    current.drop_unused();
    of_a_worker.record(span());
    drop(of_a_worker);
    current.set(&Config::embedded().telemetry, None);
    assert!(current.get().is_none());
    current.shutdown(LIMIT);
    assert_eq!(totals(first.counters()), [1, 0, 0, 0], "they count together");
}
