//! `sluicegate qlog` reads traces of connections, of this server or of any other QUIC stack.

mod folder;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use sluicegate_qlog::analysis::Summaries;
use sluicegate_qlog::convert::{Converter, QlogFormat};
use sluicegate_qlog::follow::Follow;
use sluicegate_qlog::plot::{self, Gather, Picture};
use sluicegate_qlog::reader::{self, ReadError, ReadTally, Sink};
use sluicegate_qlog::summary::notes_of;
use sluicegate_qlog::text;

use super::exit::shown;

/// Exit code of a file that is no trace.
const EXIT_NO_TRACE: u8 = 2;

/// Read traces of connections (qlog): what went wrong, the facts, a picture.
///
/// Reads what this server, quiche, quic-go and aioquic write, and the arrays of earlier drafts, compressed by gzip or not, whatever its
/// size. The exit code is 2 if a file is no trace.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct QlogArgs {
    #[command(subcommand)]
    command: QlogCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum QlogCommand {
    /// Say what went wrong with connections, from when to when and why, and then the facts.
    Summary {
        /// Traces; - is standard input.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print an array of JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the traces of a folder and those below it, the worst first.
    Top {
        /// Folder of traces: files whose names end with .sqlog or .qlog, or with .gz after that.
        directory: PathBuf,
        /// Traces that are listed.
        #[arg(short = 'n', long, value_name = "NUMBER", default_value = "20", value_parser = clap::value_parser!(u16).range(1..=10_000))]
        limit: u16,
        /// Print an array of JSON.
        #[arg(long)]
        json: bool,
    },
    /// Draw window, waits, round-trip times, rates and streams over time (SVG).
    Plot {
        /// Trace.
        file: PathBuf,
        /// Write the picture to this file instead of one named after the trace in the current folder; - is standard output.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Draw this trace of a file with several.
        #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
        trace: u64,
    },
    /// Show two traces beside each other, with what differs.
    Compare {
        /// Trace.
        one: PathBuf,
        /// Trace to compare it with.
        other: PathBuf,
        /// Draw both (SVG) into this file.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Write a trace in another format, such as the one that qvis reads.
    Convert {
        /// Trace.
        file: PathBuf,
        /// Format to write.
        #[arg(long, value_name = "FORMAT")]
        to: Target,
        /// Write to this file instead of standard output.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Format of `convert`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Target {
    /// qlog 0.3 as one JSON object, which qvis reads.
    #[value(name = "0.3")]
    Contained,
    /// qlog 0.3, a record a line.
    #[value(name = "ndjson")]
    Lines,
    /// A JSON text sequence with the names of the current drafts.
    #[value(name = "json-seq")]
    Sequence,
}

/// Runs a command and returns the exit code.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn run(args: &QlogArgs) -> anyhow::Result<u8> {
    let out = &mut BufWriter::new(io::stdout().lock());
    let code = match &args.command {
        QlogCommand::Summary { files, json } => summary(files, *json, out),
        QlogCommand::Top { directory, limit, json } => {
            folder::top(directory, usize::from(*limit), *json, out)
        }
        QlogCommand::Plot { file, output, trace } => draw(file, output.as_deref(), *trace, out),
        QlogCommand::Compare { one, other, output } => {
            compare([one, other], output.as_deref(), out)
        }
        QlogCommand::Convert { file, to, output } => convert(file, *to, output.as_deref(), out),
    }?;
    out.flush()?;
    Ok(code)
}

/// Reads a trace. One that is none is told on standard error, and `None` is returned.
fn read(file: &Path, sink: &mut impl Sink) -> anyhow::Result<Option<ReadTally>> {
    let result = if file == Path::new("-") {
        reader::read(io::stdin().lock(), sink)
    } else {
        reader::open(file, sink)
    };
    match result {
        Ok(tally) => Ok(Some(tally)),
        Err(ReadError::NotATrace(why)) => {
            eprintln!("{}: not a qlog trace: {why}", shown(&file.display().to_string()));
            Ok(None)
        }
        Err(ReadError::Io(error)) => {
            Err(error).with_context(|| format!("cannot read {}", file.display()))
        }
    }
}

fn name_of(file: &Path, place: usize) -> String {
    let name = file.display().to_string();
    if place > 0 { format!("{name}, trace {}", place + 1) } else { name }
}

fn summary(files: &[PathBuf], json: bool, out: &mut impl Write) -> anyhow::Result<u8> {
    let mut code = 0;
    let mut is_first = true;
    for file in files {
        // Those of a file are kept until its end, because what is odd about the file stands in each.
        let mut found = Vec::new();
        let mut more = 0_u64;
        let mut follow = Follow::new(Summaries::new(|summary| {
            if found.len() < MAX_TRACES {
                found.push(summary);
            } else {
                more += 1;
            }
        }));
        let Some(tally) = read(file, &mut follow)? else {
            code = EXIT_NO_TRACE;
            continue;
        };
        drop(follow);
        if more > 0 {
            eprintln!("{}: {more} more traces are not shown", file.display());
        }
        for (place, mut summary) in found.into_iter().enumerate() {
            summary.notes.extend(notes_of(&tally));
            summary.file = name_of(file, place);
            let separator = match (json, is_first) {
                (true, true) => "[\n",
                (true, false) => ",\n",
                (false, true) => "",
                (false, false) => "\n",
            };
            is_first = false;
            out.write_all(separator.as_bytes())?;
            if json {
                serde_json::to_writer_pretty(&mut *out, &summary)?;
            } else {
                out.write_all(text::story(&summary).as_bytes())?;
            }
        }
    }
    if json {
        out.write_all(if is_first { b"[]\n" } else { b"\n]\n" })?;
    }
    Ok(code)
}

/// Traces of one file that are summarised.
const MAX_TRACES: usize = 1000;

/// Reads the picture of a trace.
fn picture(file: &Path, trace: u64) -> anyhow::Result<Option<Picture>> {
    let mut follow = Follow::new(Gather::new(trace));
    let Some(tally) = read(file, &mut follow)? else {
        return Ok(None);
    };
    let Some(mut picture) = follow.follower.finish() else {
        bail!("{} has no trace {trace}; it has {} in all", file.display(), tally.traces);
    };
    picture.summary.notes.extend(notes_of(&tally));
    Ok(Some(picture))
}

fn draw(
    file: &Path,
    output: Option<&Path>,
    trace: u64,
    out: &mut impl Write,
) -> anyhow::Result<u8> {
    let name = file.file_name().map_or_else(|| "trace".into(), |name| name.to_string_lossy());
    let usual = PathBuf::from(format!("{name}.svg"));
    let output = output.unwrap_or(&usual);
    only_svg(output)?;
    let Some(picture) = picture(file, trace)? else {
        return Ok(EXIT_NO_TRACE);
    };
    save(output, &plot::draw(&[(&name, &picture)]), out)?;
    Ok(0)
}

fn compare(
    files: [&PathBuf; 2],
    output: Option<&Path>,
    out: &mut impl Write,
) -> anyhow::Result<u8> {
    output.map_or(Ok(()), only_svg)?;
    let [one, other] = files;
    let (Some(first), Some(second)) = (picture(one, 1)?, picture(other, 1)?) else {
        return Ok(EXIT_NO_TRACE);
    };
    let names = files.map(|file| file.file_name().unwrap_or(file.as_os_str()).to_string_lossy());
    let [one, other] = names.each_ref().map(|name| &**name);
    let text = text::comparison([one, other], [&first.summary, &second.summary]);
    out.write_all(text.as_bytes())?;
    if let Some(output) = output {
        save(output, &plot::draw(&[(one, &first), (other, &second)]), out)?;
    }
    Ok(0)
}

/// Refuses a name that promises another format.
fn only_svg(output: &Path) -> anyhow::Result<()> {
    let kind = output.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if ["png", "jpg", "jpeg", "pdf", "webp"].contains(&&*kind) {
        bail!(
            "pictures are SVG: name {} so, and let a browser or rsvg-convert make a {kind} of it",
            output.with_extension("svg").display()
        );
    }
    Ok(())
}

/// Writes a picture.
fn save(output: &Path, svg: &str, out: &mut impl Write) -> anyhow::Result<()> {
    if output == Path::new("-") {
        out.write_all(svg.as_bytes())?;
        return Ok(());
    }
    std::fs::write(output, svg).with_context(|| format!("cannot write {}", output.display()))?;
    eprintln!("wrote {}", output.display());
    Ok(())
}

fn convert(
    file: &Path,
    to: Target,
    output: Option<&Path>,
    out: &mut impl Write,
) -> anyhow::Result<u8> {
    let format = match to {
        Target::Contained => QlogFormat::Contained03,
        Target::Lines => QlogFormat::Lines03,
        Target::Sequence => QlogFormat::Sequence,
    };
    let Some(output) = output.filter(|output| *output != Path::new("-")) else {
        return converted(file, format, out);
    };
    if file.canonicalize().ok().is_some_and(|file| output.canonicalize().ok() == Some(file)) {
        bail!("{} is the trace itself: name another file", output.display());
    }
    converted(file, format, &mut LateFile { path: output, file: None })
        .with_context(|| format!("cannot convert {} to {}", file.display(), output.display()))
}

/// A file that the first write creates: what is no trace takes no file's place.
struct LateFile<'p> {
    path: &'p Path,
    file: Option<BufWriter<File>>,
}

impl Write for LateFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(File::create(self.path)?)),
        };
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

fn converted(file: &Path, format: QlogFormat, out: &mut impl Write) -> anyhow::Result<u8> {
    let mut converter = Converter::new(out, format);
    let Some(tally) = read(file, &mut converter)? else {
        return Ok(EXIT_NO_TRACE);
    };
    let left_out = converter.finish()?;
    if left_out > 0 {
        eprintln!(
            "{}: left out events that the format does not have: {left_out}",
            shown(&file.display().to_string())
        );
    }
    for note in notes_of(&tally) {
        eprintln!("{}: {}", file.display(), shown(&note));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_leaves_the_output_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let [file, output] = ["trace", "output"].map(|name| folder.path().join(name));
        std::fs::write(&output, "kept").unwrap();
        let run = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let code = convert(&file, Target::Lines, Some(&output), &mut Vec::new()).unwrap();
            (code, std::fs::read_to_string(&output).unwrap())
        };
        for text in ["", "nonsense", "{\"a\":1}"] {
            assert_eq!(run(text), (EXIT_NO_TRACE, "kept".to_owned()), "{text}");
        }
        let (code, written) = run(r#"{"qlog_version":"0.3","traces":[]}"#);
        assert!(code == 0 && written.starts_with(r#"{"qlog_version":"0.3""#), "{written}");
    }
}
