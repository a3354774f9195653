//! The summary of an emulation.

use std::fmt;
use std::time::Duration;

use super::emulator::Ended;
use super::histogram::Histogram;
use super::link::{Direction, End};

/// Percentiles of the summary.
const PERCENTILES: [f64; 4] = [50.0, 95.0, 99.0, 99.9];

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [down, up] = ["server → client", "client → server"];
        writeln!(f, "{:<26} {down:>17} {up:>17}", "")?;
        let columns = End::BOTH.map(|end| self.link.towards(end));
        let mut row = |title: &str, cell: &dyn Fn(&Direction) -> String| {
            let [down, up] = columns.map(cell);
            writeln!(f, "{title:<26} {down:>17} {up:>17}")
        };
        let counter = |count: fn(&Direction) -> u64| {
            move |direction: &Direction| count(direction).to_string()
        };
        row("packets entered", &counter(|d| d.tally().entered))?;
        row("packets delivered", &counter(|d| d.tally().delivered))?;
        row("packets dropped", &counter(Direction::dropped))?;
        row("packets marked CE", &counter(|d| d.tally().marked))?;
        row("bytes delivered", &counter(|d| d.tally().delivered_bytes))?;
        row("mean rate, Mbit/s", &|d| format!("{:.3}", d.tally().rate() / 1e6))?;
        percentiles(&mut row, "in the queue, ms:", |d| &d.tally().queueing)?;
        percentiles(&mut row, "delivered late, ms:", |d| &d.tally().late)?;
        writeln!(f, "packets that an end refused: {}", self.refused)?;
        let priority = if self.prioritized {
            "before all ordinary threads"
        } else {
            "like any thread, for want of rights (CAP_SYS_NICE)"
        };
        writeln!(f, "the emulator ran {priority}")
    }
}

fn percentiles(
    row: &mut impl FnMut(&str, &dyn Fn(&Direction) -> String) -> fmt::Result,
    title: &str,
    of: fn(&Direction) -> &Histogram,
) -> fmt::Result {
    for percent in PERCENTILES {
        row(&format!("{title} {percent} %"), &|direction| {
            milliseconds(of(direction).percentile(percent))
        })?;
    }
    row(&format!("{title} most"), &|direction| milliseconds(of(direction).max()))
}

fn milliseconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| format!("{:.3}", time.as_secs_f64() * 1e3))
}
