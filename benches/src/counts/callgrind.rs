//! Counts the instructions of a workload in a process of its own.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

use crate::counted::SECTION;

/// Environment of the process, which has no other: it stands on the stack.
///
/// jemalloc returns pages by the clock, so here it keeps them. glibc copies large blocks by one instruction where the processor says
/// that this is fast, and callgrind would count each byte of them.
const ENVIRONMENT: [(&str, &str); 2] = [
    ("MALLOC_CONF", "narenas:1,dirty_decay_ms:-1,muzzy_decay_ms:-1"),
    ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-ERMS"),
];

/// Runs a program under callgrind.
#[derive(Clone, Debug)]
pub struct Callgrind {
    /// The command `valgrind`.
    pub valgrind: OsString,
    /// Program that runs the workload which is named after `--run`, and prints the number of its units.
    pub program: PathBuf,
    /// Folder for callgrind's output: a file for each workload.
    pub folder: PathBuf,
}

/// Reason for which there is no figure.
#[derive(Debug, Error)]
pub enum CountError {
    /// The command could not be run.
    #[error("cannot run `{}`, which apt has as the package valgrind: {cause}", .command.display())]
    Start {
        /// Name of the command.
        command: OsString,
        /// Cause.
        cause: io::Error,
    },
    /// The workload failed.
    #[error("workload `{workload}` under callgrind: {output}")]
    Failed {
        /// Name of the workload.
        workload: String,
        /// Output of callgrind and of the program.
        output: String,
    },
    /// A file of callgrind's was not there, or has no sum of instructions.
    #[error("`{}` has no sum of instructions", .file.display())]
    Output {
        /// Name of the file.
        file: PathBuf,
    },
}

impl Callgrind {
    /// Returns the file with the instructions of a workload, function by function.
    #[must_use]
    pub fn file(&self, workload: &str) -> PathBuf {
        self.folder.join(format!("{workload}.out"))
    }

    /// Returns the instructions of a workload for each of its units.
    ///
    /// # Errors
    ///
    /// Callgrind or the workload failed.
    pub fn count(&self, workload: &str) -> Result<f64, CountError> {
        let file = self.file(workload);
        let output = Command::new(&self.valgrind)
            .env_clear()
            .envs(ENVIRONMENT)
            .args(["-q", "--tool=callgrind", "--collect-atstart=no"])
            .arg(format!("--toggle-collect=*{SECTION}*"))
            .arg(format!("--callgrind-out-file={}", file.display()))
            .arg(&self.program)
            .args(["--run", workload])
            .output();
        let output =
            output.map_err(|cause| CountError::Start { command: self.valgrind.clone(), cause })?;
        let units = String::from_utf8_lossy(&output.stdout);
        let units = units.trim().parse::<u64>();
        match units {
            Ok(units) if output.status.success() && units > 0 => {
                let sum = sum(&file).ok_or(CountError::Output { file })?;
                Ok(sum as f64 / units as f64)
            }
            _ => Err(CountError::Failed {
                workload: workload.to_owned(),
                output: String::from_utf8_lossy(&output.stderr).into_owned(),
            }),
        }
    }
}

/// Returns the sum in a file of callgrind's, if that is more than nothing.
fn sum(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let sum = text.lines().find_map(|line| line.strip_prefix("totals: "))?;
    let sum = sum.trim().parse().ok()?;
    (sum > 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_stands_in_its_own_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.out");
        for (text, expected) in [
            ("version: 1\nevents: Ir\nfn=(1) f\n1 7\ntotals: 1234\n", Some(1234)),
            ("events: Ir\ntotals: 0\n", None),
            ("events: Ir\n", None),
        ] {
            fs::write(&file, text).expect("a file");
            assert_eq!(sum(&file), expected);
        }
    }
}
