//! Prints lines and figures while a run goes on.

use std::io::{self, Write};

use crate::context::Line;
use crate::interval::{Interval, Intervals};
use crate::options::{Format, LoadArgs};
use crate::outputs::OutputFile;

/// Prints lines of the threads, and the figures of intervals that all of them have ended.
pub(crate) struct Printer<'a, O, E> {
    args: &'a LoadArgs,
    out: &'a mut O,
    err: &'a mut E,
    sums: Option<Intervals>,
    /// Intervals so far, if the page of the report needs them.
    pub(crate) intervals: Vec<Interval>,
    /// File of the intervals.
    file: &'a mut OutputFile,
    /// Errors of that file.
    pub(crate) unwritten: Vec<String>,
}

impl<'a, O: Write, E: Write> Printer<'a, O, E> {
    pub(crate) fn new(
        args: &'a LoadArgs,
        out: &'a mut O,
        err: &'a mut E,
        file: &'a mut OutputFile,
    ) -> Self {
        let every = args.intervals();
        Printer {
            args,
            out,
            err,
            sums: every.map(|every| Intervals::new(every, args.threads)),
            intervals: Vec::new(),
            file,
            unwritten: Vec::new(),
        }
    }

    /// Prints what a thread says.
    ///
    /// # Errors
    /// The output is broken.
    pub(crate) fn print(&mut self, line: Line) -> io::Result<()> {
        match line {
            Line::Report(line) => self.report(&line),
            Line::Note(line) => writeln!(self.err, "{line}"),
            Line::Part(part) => {
                let whole = self.sums.as_mut().map(|sums| sums.take(*part));
                let whole = whole.unwrap_or_default();
                whole.iter().try_for_each(|interval| self.interval(interval))
            }
        }
    }

    /// Prints a line of the report, beside the output if that is JSON.
    pub(crate) fn report(&mut self, line: &str) -> io::Result<()> {
        if self.args.format == Format::Json {
            writeln!(self.err, "{line}")
        } else {
            writeln!(self.out, "{line}")
        }
    }

    fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        let error = self.file.write(|| interval.json().to_string() + "\n");
        self.unwritten.extend(error);
        if self.args.html.is_some() {
            self.intervals.push(*interval);
        }
        if self.args.interval.is_some() {
            self.report(&interval.line())?;
        }
        Ok(())
    }
}
