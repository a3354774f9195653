//! Decides which messages are written: those of this program, of the configured levels, and so many of a kind.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use sluicegate_config::LogLevel;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::LogCounters;
use super::rate::{LeftOut, Rates};

/// Prefix of the crates whose messages are written. Those of libraries are not: strangers cause them at will, and some have values of
/// fields.
const OWN: &str = "sluicegate";
/// Target of the messages about those that were left out.
const LEFT_OUT: &str = "sluicegate::left_out";
/// Time between two such messages of a kind.
pub(super) const PERIOD: Duration = Duration::from_secs(10);
/// Most bytes of a message that is quoted.
const EXAMPLE: usize = 200;

/// The filter's state, which the log's thread shares.
#[derive(Debug)]
pub(super) struct Filter {
    level: AtomicU8,
    now: fn() -> Instant,
    rates: Mutex<Rates>,
    /// The thread whose messages have no rate: the main thread's, which only the operator's acts cause.
    free: OnceLock<ThreadId>,
    is_rated: AtomicBool,
    counters: Arc<LogCounters>,
}

impl Filter {
    pub(super) fn new(level: LogLevel, now: fn() -> Instant, counters: Arc<LogCounters>) -> Filter {
        Filter {
            level: AtomicU8::new(level as u8),
            now,
            rates: Mutex::default(),
            free: OnceLock::new(),
            is_rated: AtomicBool::new(false),
            counters,
        }
    }

    /// Sets the least severe level that is written.
    pub(super) fn set_level(&self, level: LogLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    /// Bounds the rate of messages from now on, except those of this thread.
    pub(super) fn begin_rates(&self) {
        let _ = self.free.set(std::thread::current().id());
        self.is_rated.store(true, Ordering::Release);
    }

    fn level(&self) -> LevelFilter {
        match self.level.load(Ordering::Relaxed) {
            0 => LevelFilter::ERROR,
            1 => LevelFilter::WARN,
            2 => LevelFilter::INFO,
            3 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }
    }

    fn admits(&self, metadata: &Metadata<'_>, example: impl FnOnce() -> String) -> bool {
        if !self.is_rated.load(Ordering::Acquire)
            || metadata.target() == LEFT_OUT
            || self.free.get() == Some(&std::thread::current().id())
        {
            return true;
        }
        let kind = (metadata.callsite(), *metadata.level());
        let now = (self.now)();
        let admitted = self.rates().admit(kind, now, example);
        if !admitted {
            let dropped = &self.counters.records_dropped_rate;
            dropped.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Logs how many messages of each kind were left out since the last time.
    pub(super) fn report(&self) {
        let left_out = self.rates().take_left_out();
        left_out.into_iter().for_each(log);
    }

    fn rates(&self) -> std::sync::MutexGuard<'_, Rates> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(left_out: LeftOut) {
    let LeftOut { level, count, example } = left_out;
    macro_rules! at {
        ($level:ident) => {
            tracing::event!(target: LEFT_OUT, Level::$level, count, example, "more messages of a kind were left out")
        };
    }
    match level {
        Level::ERROR => at!(ERROR),
        Level::WARN => at!(WARN),
        Level::INFO => at!(INFO),
        Level::DEBUG => at!(DEBUG),
        Level::TRACE => at!(TRACE),
    }
}

/// The layer of `tracing` that asks the filter.
pub(super) struct FilterLayer(pub(super) Arc<Filter>);

impl<S: Subscriber> Layer<S> for FilterLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= self.0.level() && is_own(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.level())
    }

    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let example = || {
            let mut text = Text(String::new());
            event.record(&mut text);
            text.0
        };
        self.0.admits(event.metadata(), example)
    }
}

/// Returns whether a target, which is a module's path, is of this program.
fn is_own(target: &str) -> bool {
    let rest = target.strip_prefix(OWN);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '_']))
}

/// Text of a message, without its fields.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing to memory cannot fail.
            let _ = write!(self.0, "{value:?}");
            self.0.truncate(self.0.floor_char_boundary(EXAMPLE));
        }
    }
}
