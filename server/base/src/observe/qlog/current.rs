//! The traces' writer in effect, which a reload may replace.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::Qlog as Settings;

use super::{DumpLimit, QlogCounters, QlogOptions, QlogWriter};
use crate::observe::in_effect::{InEffect, ReplaceableWriter};

/// Writer of traces in effect, and those before it whose traces are still open. All count together.
#[derive(Debug, Default)]
pub struct CurrentTraces {
    counters: Arc<QlogCounters>,
    dumps: Arc<DumpLimit>,
    writers: InEffect<QlogOptions, QlogWriter>,
}

impl CurrentTraces {
    /// Returns the writer of these settings, which is not in effect yet; `None` if they name no directory. It is the one in effect
    /// if directory and bounds stay the same.
    ///
    /// # Errors
    /// There is no thread.
    pub fn prepare(&self, settings: &Settings) -> io::Result<Option<Arc<QlogWriter>>> {
        let Some(wanted) = options(settings) else {
            return Ok(None);
        };
        let present = |known: &QlogOptions, writer: &Arc<QlogWriter>| {
            (*known == wanted).then(|| Arc::clone(writer))
        };
        if let Some(writer) = self.writers.look(present) {
            return Ok(Some(writer));
        }
        let writer = QlogWriter::start(&wanted, Arc::clone(&self.counters))?;
        Ok(Some(Arc::new(writer)))
    }

    /// Puts a writer that was prepared for these settings into effect. Traces that are open go on with the writer that they began
    /// with.
    pub fn set(&self, settings: &Settings, writer: Option<Arc<QlogWriter>>) {
        self.writers.set(options(settings).zip(writer));
    }

    /// Returns the writer in effect.
    pub fn get(&self) -> Option<Arc<QlogWriter>> {
        self.writers.get()
    }

    /// Returns the directory of traces, and how many may be open.
    pub fn bounds(&self) -> Option<(PathBuf, usize)> {
        self.writers.look(|options, _| Some((options.directory.clone(), options.max_open)))
    }

    /// Returns the bound on files of flight recorders, which is the same after a reload.
    pub fn dumps(&self) -> Arc<DumpLimit> {
        Arc::clone(&self.dumps)
    }

    /// Returns the number of open traces, those of previous writers included.
    pub fn open_traces(&self) -> usize {
        self.writers.sum(QlogWriter::open_traces)
    }

    /// Ends the threads of previous writers without open traces, and drops those that have ended.
    pub fn drop_unused(&self) {
        self.writers.drop_unused();
    }

    /// Writes what was handed over and ends the threads, each within `limit`. Drop the traces first.
    pub fn shutdown(&self, limit: Duration) {
        self.writers.shutdown(limit);
    }
}

impl ReplaceableWriter for QlogWriter {
    fn is_same(&self, other: &QlogWriter) -> bool {
        std::ptr::eq(self, other)
    }

    fn has_ended(writer: &Arc<QlogWriter>) -> bool {
        // A worker that has not taken up the new writer may still open a trace.
        let is_unused = Arc::strong_count(writer) == 1 && writer.open_traces() == 0;
        is_unused && writer.shutdown(Duration::ZERO)
    }

    fn end(&self, limit: Duration) {
        self.shutdown(limit);
    }
}

/// Returns the bounds of a configuration; `None` if it has no directory for traces.
fn options(settings: &Settings) -> Option<QlogOptions> {
    let directory = settings.directory.clone()?;
    Some(QlogOptions {
        max_open: usize::try_from(settings.max_open_traces).unwrap_or(usize::MAX),
        max_trace_bytes: settings.max_trace_bytes,
        max_directory_bytes: settings.max_total_bytes,
        queue_bytes: settings.queue,
        ..QlogOptions::new(directory)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use sluicegate_config::Config;

    use super::super::{TraceName, TracePart};
    use super::*;

    /// Puts settings into effect and returns their writer.
    fn put(current: &CurrentTraces, settings: &Settings) -> Option<Arc<QlogWriter>> {
        let writer = current.prepare(settings).unwrap();
        current.set(settings, writer.clone());
        writer
    }

    const NAME: TraceName<'static> = TraceName {
        original_dcid: &[1; 8],
        listener: "main",
        algorithm: "reno",
        part: TracePart::Whole,
    };

    fn settings(directory: &Path, sample_rate: f64) -> Settings {
        Settings { directory: Some(directory.to_owned()), sample_rate, ..Config::embedded().qlog }
    }

    fn files(directory: &Path) -> usize {
        std::fs::read_dir(directory).map_or(0, Iterator::count)
    }

    #[test]
    fn a_trace_ends_where_it_began_and_its_writer_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        let current = CurrentTraces::default();
        let mut first = {
            let writer = put(&current, &settings(&one, 1.0)).unwrap();
            writer.open(&NAME, b"").unwrap()
        };
        let mut second = {
            let writer = put(&current, &settings(&two, 0.5)).unwrap();
            writer.open(&NAME, b"").unwrap()
        };
        current.drop_unused();
        assert_eq!((current.open_traces(), current.writers.retired()), (2, 1));
        for trace in [&mut first, &mut second] {
            trace.write_all(b"\x1e{}\n").unwrap();
        }
        drop((first, second));
        while current.writers.retired() > 0 {
            current.drop_unused();
            std::thread::yield_now();
        }
        current.shutdown(Duration::from_secs(30));
        assert_eq!((files(&one), files(&two)), (1, 1));
    }

    #[test]
    fn another_share_keeps_the_writer_and_no_directory_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let current = CurrentTraces::default();
        let writer = |rate| put(&current, &settings(folder.path(), rate));
        let first = writer(1.0).unwrap();
        for rate in [0.1, 0.0] {
            assert!(Arc::ptr_eq(&first, &writer(rate).unwrap()));
        }
        assert_eq!(current.bounds(), Some((folder.path().to_owned(), 256)));
        let nowhere = Settings { directory: None, ..settings(folder.path(), 0.0) };
        assert!(put(&current, &nowhere).is_none() && current.bounds().is_none());
        drop(first);
        while current.writers.retired() > 0 {
            current.drop_unused();
            std::thread::yield_now();
        }
    }
}
