//! Log of the process's own messages, on standard error.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use sluicegate_config::{Log, LogFormat, LogLevel};
use tracing::subscriber::set_global_default;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, Layered, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload::{self, Handle};

/// The registry behind the filter of levels.
type Filtered = Layered<reload::Layer<LevelFilter, Registry>, Registry>;
/// Writer of messages in either form.
type Writer = Box<dyn Layer<Filtered> + Send + Sync>;

/// Handles of the log in effect, which is the whole process's.
static HANDLES: OnceLock<Handles> = OnceLock::new();

struct Handles {
    level: Handle<LevelFilter, Registry>,
    writer: Handle<Writer, Filtered>,
}

/// Starts the log of this program's own messages. Those of libraries are not written: quiche's contain values of fields, and
/// only `try_init` of a builder would forward them.
pub fn start(log: &Log) {
    let (filter, level) = reload::Layer::new(filter(log.level));
    let (layer, writer) = reload::Layer::new(writer(log.format));
    // A second one in a process (tests) changes nothing.
    if set_global_default(Registry::default().with(filter).with(layer)).is_ok() {
        let _ = HANDLES.set(Handles { level, writer });
    }
}

/// Writes messages of other levels, or in another form, from now on.
pub fn set(log: &Log) {
    if let Some(handles) = HANDLES.get() {
        // It fails only without the log.
        let _ = handles.level.reload(filter(log.level));
        let _ = handles.writer.reload(writer(log.format));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Returns whether messages have colours: on a terminal, unless the user wants none (<https://no-color.org>).
#[expect(
    clippy::disallowed_methods,
    reason = "the variable is the user's word to every program"
)]
fn has_colors() -> bool {
    let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !wants_none
}

fn writer(format: LogFormat) -> Writer {
    let layer = fmt::layer()
        .with_target(false)
        .with_ansi(has_colors())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Json => layer.json().boxed(),
        LogFormat::Text => layer.boxed(),
    }
}
