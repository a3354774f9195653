//! CPU time of processes, cores and the whole machine, and memory of processes, as the kernel accounts them.

use std::fs;

use anyhow::{Context as _, Result};

/// Units of `/proc` in a second, the same on all platforms of Linux that matter here.
const TICKS: f64 = 100.0;

/// CPU time used so far, seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// Of the processes: user and system time of all their threads, those that have ended included.
    pub(crate) process: f64,
    /// Of the whole machine: everything but idle time and the time that the hypervisor took.
    pub(crate) machine: f64,
}

impl Cpu {
    /// Reads both, of a process and of all below it; `process` is its number, or `self`.
    ///
    /// # Errors
    ///
    /// There is no such process.
    pub(crate) fn read(process: &str) -> Result<Self> {
        let mut used = 0.0;
        for process in tree(process) {
            let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
            // The name of the program, which may have spaces, stands in parentheses.
            let behind = stat.rsplit_once(')').context("a line of /proc/PID/stat")?.1;
            used += seconds(behind, &[11, 12])?;
        }
        let machine = fs::read_to_string("/proc/stat")?;
        let line = machine.lines().next().context("a line of /proc/stat")?;
        Ok(Self { process: used, machine: seconds(line, &[1, 2, 3, 6, 7])? })
    }

    /// Returns what was used since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { process: self.process - before.process, machine: self.machine - before.machine }
    }
}

/// Returns the numbers of a process and of all below it.
pub(crate) fn tree(process: &str) -> Vec<String> {
    let mut processes = vec![process.to_owned()];
    let mut next = 0;
    while let Some(process) = processes.get(next) {
        let tasks = fs::read_dir(format!("/proc/{process}/task"));
        let tasks = tasks.into_iter().flatten().flatten();
        let children =
            tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let children: Vec<String> = children
            .flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        processes.extend(children);
        next += 1;
    }
    processes
}

/// Returns the memory of a process and of all below it, KiB: what several share counts in parts.
///
/// # Errors
///
/// There is no such process, or it belongs to someone else.
pub(crate) fn memory_of_tree(process: &str) -> Result<f64> {
    let memory = |process: String| {
        let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
        let line = rollup.lines().find(|line| line.starts_with("Pss:"));
        let words = line.context("no Pss in smaps_rollup")?;
        let number = words.split_whitespace().nth(1).context("a short line of smaps_rollup")?;
        Ok(number.parse::<f64>()?)
    };
    tree(process).into_iter().map(memory).sum()
}

/// Time of one core so far, seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Core {
    /// Time in which it ran something.
    pub(crate) busy: f64,
    /// Time that the hypervisor took while the core had something to run.
    pub(crate) stolen: f64,
}

impl Core {
    /// Reads the time of a core.
    ///
    /// # Errors
    ///
    /// There is no such core.
    pub(crate) fn read(core: usize) -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let start = format!("cpu{core} ");
        let line = stat.lines().find(|line| line.starts_with(&start));
        let line = line.with_context(|| format!("there is no core {core}"))?;
        Ok(Self { busy: seconds(line, &[1, 2, 3, 6, 7])?, stolen: seconds(line, &[8])? })
    }

    /// Returns what was used since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { busy: self.busy - before.busy, stolen: self.stolen - before.stolen }
    }
}

/// Returns the sum of some words of a line, seconds.
fn seconds(line: &str, places: &[usize]) -> Result<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut sum = 0.0;
    for place in places {
        let ticks: f64 = words.get(*place).context("a short line of /proc")?.parse()?;
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

    #[test]
    fn a_tree_has_the_processes_below_it() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & echo there; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo done; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let output = shell.stdout.take().unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(output);
        for _ in 0..2 {
            std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        }
        let processes = tree(&shell.id().to_string());
        let memory = memory_of_tree(&processes[0]).unwrap();
        let used = Cpu::read(&processes[0]).unwrap().process;
        for process in processes.iter().rev() {
            assert!(std::process::Command::new("kill").arg(process).status().unwrap().success());
        }
        shell.wait().unwrap();
        assert_eq!(processes.len(), 2);
        assert!(memory > 0.0 && used > 0.0);
    }
}
