//! CPU time of a process and of the whole machine, as the kernel accounts it.

use std::fs;

use anyhow::{Context as _, Result};

/// Units of `/proc` in a second, the same on all platforms of Linux that matter here.
const TICKS: f64 = 100.0;

/// CPU time used so far, seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// Of the process: user and system time of all its threads, those that have ended included.
    pub(crate) process: f64,
    /// Of the whole machine: everything but idle time and the time that the hypervisor took.
    pub(crate) machine: f64,
}

impl Cpu {
    /// Reads both; `process` is a process's number, or `self`.
    pub(crate) fn read(process: &str) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name of the program, which may have spaces, stands in parentheses.
        let behind = stat.rsplit_once(')').context("a line of /proc/PID/stat")?.1;
        let machine = fs::read_to_string("/proc/stat")?;
        let line = machine.lines().next().context("a line of /proc/stat")?;
        Ok(Self {
            process: seconds(behind, &[11, 12])?,
            machine: seconds(line, &[1, 2, 3, 6, 7])?,
        })
    }

    /// Returns what was used since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            process: self.process - before.process,
            machine: self.machine - before.machine,
        }
    }
}

/// Returns the sum of some words of a line, seconds.
fn seconds(line: &str, places: &[usize]) -> Result<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut sum = 0.0;
    for place in places {
        let ticks: f64 = words
            .get(*place)
            .context("a short line of /proc")?
            .parse()?;
        sum += ticks / TICKS;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_the_sum_of_its_kinds() {
        let line = "cpu  100 20 3 4000 500 6 70 9 0 0";
        assert!((seconds(line, &[1, 2, 3, 6, 7]).unwrap() - 1.99).abs() < 1e-9);
        assert!(seconds("cpu 1 2", &[1, 2, 3]).is_err());
    }
}
