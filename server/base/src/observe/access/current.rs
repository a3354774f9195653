//! The access log in effect, which a reload may replace.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::AccessLog as Settings;

use super::{AccessCounters, AccessWriter};
use crate::observe::in_effect::{InEffect, ReplaceableWriter};

/// Writer of the access log in effect, and those before it that still have lines to write. All count together.
#[derive(Debug, Default)]
pub struct CurrentAccess {
    counters: Arc<AccessCounters>,
    writers: InEffect<Settings, AccessWriter>,
}

impl CurrentAccess {
    /// Returns the writer for these settings, which [`CurrentAccess::set`] puts into effect; `None` without a log. It writes by
    /// the present thread if file and queue stay.
    ///
    /// # Errors
    /// The file cannot be opened, or there is no thread.
    pub fn prepare(&self, wanted: &Settings) -> io::Result<Option<Arc<AccessWriter>>> {
        let Some(target) = wanted.file.clone() else {
            return Ok(None);
        };
        let present = |known: &Settings, writer: &Arc<AccessWriter>| {
            if known == wanted {
                return Some(Arc::clone(writer));
            }
            let has_thread = (&known.file, known.queue) == (&wanted.file, wanted.queue);
            has_thread
                .then(|| Arc::new(writer.with_format(wanted.format).with_queries(wanted.query)))
        };
        if let Some(writer) = self.writers.look(present) {
            return Ok(Some(writer));
        }
        let counters = Arc::clone(&self.counters);
        let writer = AccessWriter::start(Box::new(target), wanted.format, wanted.queue, counters)?;
        Ok(Some(Arc::new(writer.with_queries(wanted.query))))
    }

    /// Puts a writer into effect. The one before writes what the workers hand over until they have another one.
    pub fn set(&self, settings: &Settings, writer: Option<Arc<AccessWriter>>) {
        self.writers.set(writer.map(|writer| (settings.clone(), writer)));
    }

    /// Returns the writer in effect.
    pub fn get(&self) -> Option<Arc<AccessWriter>> {
        self.writers.get()
    }

    /// Ends the threads of previous logs that no worker uses any more, and drops those that have ended.
    pub fn drop_unused(&self) {
        self.writers.drop_unused();
    }

    /// Writes what was handed over and ends the threads, each within `limit`. Drop the workers' ends first.
    pub fn shutdown(&self, limit: Duration) {
        self.writers.shutdown(limit);
    }
}

impl ReplaceableWriter for AccessWriter {
    fn is_same(&self, other: &AccessWriter) -> bool {
        self.shares_thread(other)
    }

    fn has_ended(writer: &Arc<AccessWriter>) -> bool {
        AccessWriter::has_ended(writer)
    }

    fn end(&self, limit: Duration) {
        self.shutdown(limit);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sluicegate_config::{AccessFormat, LogTarget};

    use super::*;
    use crate::observe::access::tests::record;

    /// Time for anything that a test waits for.
    const WAIT_LIMIT: Duration = Duration::from_secs(30);

    fn settings(file: Option<&Path>, format: AccessFormat) -> Settings {
        Settings {
            file: file.map(|file| LogTarget::File(file.to_owned())),
            format,
            query: false,
            queue: 1 << 20,
        }
    }

    fn set(current: &CurrentAccess, wanted: &Settings) {
        let writer = current.prepare(wanted).unwrap();
        current.set(wanted, writer);
    }

    fn lines(file: &Path) -> usize {
        std::fs::read_to_string(file).unwrap().lines().count()
    }

    #[test]
    fn a_worker_that_still_has_the_previous_log_loses_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        let current = CurrentAccess::default();
        set(&current, &settings(Some(&one), AccessFormat::Combined));
        let mut slow = current.get().unwrap().log("a-0".into());
        slow.record(&record());
        set(&current, &settings(Some(&two), AccessFormat::Combined));
        current.drop_unused();
        let mut quick = current.get().unwrap().log("a-1".into());
        quick.record(&record());
        slow.record(&record());
        slow.flush();
        slow.record(&record());
        drop((slow, quick));
        current.shutdown(WAIT_LIMIT);
        assert_eq!((lines(&one), lines(&two)), (3, 1));
        let counters = &current.counters;
        let written = counters.records_written.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(written, 4, "over both");
        while current.writers.retired() > 0 {
            current.drop_unused();
            std::thread::yield_now();
        }
    }

    #[test]
    fn another_format_keeps_the_thread_and_none_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        let current = CurrentAccess::default();
        set(&current, &settings(Some(&file), AccessFormat::Combined));
        let first = current.get().unwrap();
        set(&current, &settings(Some(&file), AccessFormat::Json));
        let second = current.get().unwrap();
        assert!(second.shares_thread(&first) && current.writers.retired() == 0);
        for writer in [&first, &second] {
            writer.log("a-0".into()).record(&record());
        }
        set(&current, &settings(None, AccessFormat::Json));
        assert!(current.get().is_none());
        current.shutdown(WAIT_LIMIT);
        let text = std::fs::read_to_string(&file).unwrap();
        let begins: Vec<_> = text.lines().map(|line| &line[..1]).collect();
        assert_eq!(begins, ["1", "{"]);
    }

    #[test]
    fn a_file_that_cannot_be_opened_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        let current = CurrentAccess::default();
        set(&current, &settings(Some(&file), AccessFormat::Json));
        let missing = folder.path().join("none/log");
        assert!(current.prepare(&settings(Some(&missing), AccessFormat::Json)).is_err());
        current.get().unwrap().log("a-0".into()).record(&record());
        current.shutdown(WAIT_LIMIT);
        assert_eq!(lines(&file), 1);
    }
}
