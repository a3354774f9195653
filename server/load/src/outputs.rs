//! The files that a run writes, opened before it starts, so that a path that cannot be written is found at once.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::interval::Interval;
use crate::log::{LogFile, RunStart};
use crate::options::LoadArgs;
use crate::report::Report;
use crate::{hgrm, html};

/// A file that is written at the end of the run, or during it, and its path.
pub(crate) struct OutputFile(Option<(File, PathBuf)>);

impl OutputFile {
    /// Opens a file, if it is asked for; what it had is gone.
    fn create(path: Option<&Path>) -> anyhow::Result<OutputFile> {
        let open = |path: &Path| Ok((File::create(path)?, path.to_owned()));
        let file = path.map(|path| writable(path, open)).transpose()?;
        Ok(OutputFile(file))
    }

    /// Writes a text to the file, if it is asked for; `text` makes it. Returns what went wrong, and writes nothing after that.
    pub(crate) fn write(&mut self, text: impl FnOnce() -> String) -> Option<String> {
        let (file, path) = self.0.as_mut()?;
        let error = file.write_all(text().as_bytes()).err()?;
        let wrong = format!("cannot write {}: {error}", path.display());
        self.0 = None;
        Some(wrong)
    }
}

/// The files.
pub(crate) struct Outputs {
    /// The request log.
    pub(crate) log: Option<LogFile>,
    /// The report as JSON.
    report: OutputFile,
    /// The figures of the intervals.
    pub(crate) intervals: OutputFile,
    /// The distribution of request times.
    hdr: OutputFile,
    /// The report as HTML.
    html: OutputFile,
}

impl Outputs {
    /// Opens the files of a run that starts at `start`.
    ///
    /// # Errors
    /// One of them cannot be written.
    pub(crate) fn open(args: &LoadArgs, start: RunStart) -> anyhow::Result<Outputs> {
        if let Some(base) = args.qlog_file_base.as_deref() {
            // Connections make the files of their traces; the first one stands for all.
            writable(&trace(base, 0, 0), |path| File::create(path))?;
        }
        let log = args.log_file.as_deref();
        let log = log.map(|path| writable(path, |path| LogFile::open(path, start)));
        Ok(Outputs {
            log: log.transpose()?,
            report: OutputFile::create(args.output_file.as_deref())?,
            intervals: OutputFile::create(args.interval_file.as_deref())?,
            hdr: OutputFile::create(args.hdr.as_deref())?,
            html: OutputFile::create(args.html.as_deref())?,
        })
    }

    /// Writes what is known at the end of the run. Returns what went wrong.
    pub(crate) fn write(
        &mut self,
        args: &LoadArgs,
        report: &Report<'_>,
        intervals: &[Interval],
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        wrong.extend(self.report.write(|| report.json().to_string() + "\n"));
        let times = report.tally.request.histogram();
        wrong.extend(self.hdr.write(|| hgrm::percentiles(times)));
        if args.html.is_some() {
            match html::page(args, report, intervals) {
                Ok(page) => wrong.extend(self.html.write(|| page)),
                Err(error) => wrong.push(format!("--html: {error}")),
            }
        }
        wrong
    }
}

pub(crate) fn trace(base: &Path, thread: u64, connection: usize) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(format!(".{thread}.{connection}.sqlog"));
    PathBuf::from(name)
}

fn writable<T>(path: &Path, open: impl FnOnce(&Path) -> std::io::Result<T>) -> anyhow::Result<T> {
    open(path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::options;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn paths_that_cannot_be_written_are_named() {
        for option in [
            "--log-file",
            "--output-file",
            "--qlog-file-base",
            "--interval-file",
            "--hdr",
            "--html",
        ] {
            let args = options::parse(&[option, "/nowhere/file", "a"]).unwrap();
            let opened =
                Outputs::open(&args, RunStart { at: Instant::now(), unix: Duration::ZERO });
            let error = format!("{:#}", opened.map(drop).unwrap_err());
            assert!(error.starts_with("cannot write /nowhere/file"), "{option}: {error}");
        }
    }
}
