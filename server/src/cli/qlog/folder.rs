//! The traces of a folder, the worst first.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use sluicegate_qlog::analysis::Summaries;
use sluicegate_qlog::follow::Follow;
use sluicegate_qlog::reader;
use sluicegate_qlog::text::{self, TopLine};

use super::super::exit::shown;

/// Levels of folders that are visited.
const MAX_DEPTH: usize = 8;
/// Endings of names of traces.
const ENDINGS: [&str; 4] = [".sqlog", ".qlog", ".sqlog.gz", ".qlog.gz"];

/// The worst lines so far.
struct Worst {
    limit: usize,
    lines: Vec<TopLine>,
    traces: u64,
}

impl Worst {
    fn add(&mut self, line: TopLine) {
        self.traces += 1;
        self.lines.push(line);
        if self.lines.len() >= 2 * self.limit {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.lines.sort_by(TopLine::order);
        self.lines.truncate(self.limit);
    }
}

/// What was found beside traces.
#[derive(Default)]
struct Others {
    no_traces: u64,
    unreadable: u64,
}

/// Lists the worst traces.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn top(
    directory: &Path,
    limit: usize,
    json: bool,
    out: &mut impl Write,
) -> anyhow::Result<u8> {
    let mut worst = Worst { limit, lines: Vec::new(), traces: 0 };
    let mut others = Others::default();
    let entries = fs::read_dir(directory);
    let entries = entries.with_context(|| format!("cannot list {}", directory.display()))?;
    visit(entries, directory, 0, &mut worst, &mut others);
    worst.cut();
    if json {
        serde_json::to_writer_pretty(&mut *out, &worst.lines)?;
        out.write_all(b"\n")?;
    } else if worst.traces > 0 {
        out.write_all(text::table(&worst.lines).as_bytes())?;
        if worst.traces > worst.lines.len() as u64 {
            writeln!(out, "{} of {} traces", worst.lines.len(), worst.traces)?;
        }
    }
    let name = shown(&directory.display().to_string());
    if others.no_traces > 0 {
        eprintln!("{name}: {} files are no traces, though named so", others.no_traces);
    }
    if others.unreadable > 0 {
        eprintln!("{name}: {} files or folders cannot be read", others.unreadable);
    }
    if worst.traces == 0 {
        eprintln!(
            "{name}: no traces; their names end with .sqlog or .qlog, or with .gz after that"
        );
        return Ok(super::EXIT_NO_TRACE);
    }
    Ok(0)
}

/// Visits a folder and those below it. Links to folders are not followed.
fn visit(entries: fs::ReadDir, root: &Path, depth: usize, worst: &mut Worst, others: &mut Others) {
    for entry in entries {
        let Ok((path, kind)) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))
        else {
            others.unreadable += 1;
            continue;
        };
        if kind.is_dir() && depth < MAX_DEPTH {
            match fs::read_dir(&path) {
                Ok(entries) => visit(entries, root, depth + 1, worst, others),
                Err(_) => others.unreadable += 1,
            }
        } else if is_named_so(&path) && path.is_file() {
            take(&path, root, worst, others);
        }
    }
}

fn is_named_so(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn take(path: &Path, root: &Path, worst: &mut Worst, others: &mut Others) {
    let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
    let mut place = 0_u64;
    let mut follow = Follow::new(Summaries::new(|summary| {
        place += 1;
        let name = if place > 1 { format!("{name}, trace {place}") } else { name.clone() };
        if let Some(line) = TopLine::new(name, summary) {
            worst.add(line);
        }
    }));
    match reader::open(path, &mut follow) {
        Ok(_) => {}
        Err(reader::ReadError::NotATrace(_)) => others.no_traces += 1,
        Err(reader::ReadError::Io(_)) => others.unreadable += 1,
    }
}
