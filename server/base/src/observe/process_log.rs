//! Log of the process's own messages, on standard error.
//!
//! A thread writes them, so that a reader that is stuck costs messages and never service. Whoever logs drops a message that does not
//! fit in the queue, and counts it. Messages of libraries are not written, and of each kind only so many in a second: no byte from
//! outside makes the log grow faster.

mod filter;
mod rate;
mod sink;

use crate::observe::metrics::metrics;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sluicegate_config::{Log, LogFormat};
use tracing::subscriber::set_global_default;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, Layered, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload::{self, Handle};

use self::filter::{Filter, FilterLayer};
use self::sink::Sink;
use crate::clock;

/// The registry behind the filter.
type Filtered = Layered<FilterLayer, Registry>;
/// Writer of messages in either form.
type Writer = Box<dyn Layer<Filtered> + Send + Sync>;

/// The log in effect, which is the whole process's.
static LOG: OnceLock<ProcessLog> = OnceLock::new();

struct ProcessLog {
    filter: Arc<Filter>,
    sink: &'static Sink,
    writer: Handle<Writer, Filtered>,
    counters: Arc<LogCounters>,
}

/// Starts the log of this program's own messages. Those of libraries are not written. At first the calling thread writes them itself.
pub fn start(log: &Log) {
    let counters = Arc::<LogCounters>::default();
    // For the rest of the process's life.
    let sink: &'static Sink = Box::leak(Box::new(Sink::new(Arc::clone(&counters))));
    let filter = Arc::new(Filter::new(log.level, clock::now, Arc::clone(&counters)));
    let (layer, writer) = reload::Layer::new(writer(log.format, sink));
    let subscriber = Registry::default().with(FilterLayer(Arc::clone(&filter)));
    // A second one in a process (tests) changes nothing.
    if set_global_default(subscriber.with(layer)).is_ok() {
        let _ = LOG.set(ProcessLog { filter, sink, writer, counters });
    }
}

/// Has a thread write the messages from now on, so that no thread waits for their reader, and bounds the rate of each kind, except
/// those of the calling thread. Call it before there are threads that serve.
///
/// # Errors
/// There is no thread.
pub fn start_thread() -> io::Result<()> {
    let Some(log) = LOG.get() else {
        return Ok(());
    };
    log.sink.start_thread(&log.filter)?;
    log.filter.begin_rates();
    Ok(())
}

/// Writes messages of other levels, or in another form, from now on.
pub fn set(settings: &Log) {
    if let Some(log) = LOG.get() {
        log.filter.set_level(settings.level);
        // It fails only without the log.
        let _ = log.writer.reload(writer(settings.format, log.sink));
    }
}

/// Writes the messages that wait, and ends the log. Returns whether all were written within `limit`; if not, nobody reads standard
/// error, and the process must not write there.
pub fn finish(limit: Duration) -> bool {
    LOG.get().is_none_or(|log| {
        log.filter.report();
        log.sink.finish(limit)
    })
}

/// Returns the totals, which go on.
pub fn counters() -> Arc<LogCounters> {
    let log = LOG.get();
    log.map(|log| Arc::clone(&log.counters)).unwrap_or_default()
}

fn writer(format: LogFormat, sink: &'static Sink) -> Writer {
    sink.set_format(format);
    let layer =
        fmt::layer().with_target(false).with_ansi(sink.has_colors()).with_writer(move || sink);
    match format {
        LogFormat::Json => layer.json().boxed(),
        LogFormat::Text => layer.boxed(),
    }
}

metrics! {
    /// Messages since the start.
    #[derive(Debug, Default)]
    pub struct LogCounters {
        /// Messages written to the process's log.
        pub records_written: AtomicU64 = counter("sluicegate_log_records_written_total"),
        /// Messages dropped because too many waited for a reader of the log.
        pub records_dropped_queue: AtomicU64 = counter(
            "sluicegate_log_records_dropped_total", reason = "queue";
            "Messages of the process's log that were dropped before they were written, by reason."
        ),
        /// Messages dropped because standard error took none.
        pub records_dropped_disk: AtomicU64 = also(reason = "disk"),
        /// Messages left out because there were too many of their kind.
        pub records_dropped_rate: AtomicU64 = also(reason = "rate"),
    }
}
