//! Flame graphs of a running process, from samples that `perf` takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use inferno::collapse::Collapse as _;
use inferno::collapse::perf::Folder;
use inferno::flamegraph;

use crate::cpu;
use crate::generator::Schedule;
use crate::measure::{Bench, Contestant};
use crate::workload::Workload;

/// Samples of the call stacks per second: not a divisor of anything that happens regularly.
const SAMPLES: u32 = 997;

/// Draws a flame graph of each server under each of the workloads that ask as fast as possible.
pub(crate) fn graphs(
    bench: &Bench,
    workloads: &[Workload],
    contestants: &[Contestant],
    folder: &Path,
) -> Result<()> {
    fs::create_dir_all(folder)?;
    for contestant in contestants {
        for workload in workloads {
            let load = workload.load(bench.seconds + 1.0);
            let is_heavy = matches!(load.schedule, Schedule::Closed { .. });
            if !is_heavy || !contestant.peer.serves(workload) {
                continue;
            }
            let load = bench.generator.start(&load, &contestant.url(workload))?;
            // The handshakes are not what is asked for.
            thread::park_timeout(Duration::from_millis(300));
            let drawn = draw(folder, contestant, workload, bench.seconds);
            bench.generator.finish(load)?;
            match drawn {
                Ok(file) => eprintln!("flame graph: {}", file.display()),
                Err(cause) => {
                    eprintln!("no flame graphs: {cause:#}");
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Takes samples of a server for so many seconds, and draws `FOLDER/SERVER-WORKLOAD.svg`.
fn draw(
    folder: &Path,
    contestant: &Contestant,
    workload: &Workload,
    seconds: f64,
) -> Result<PathBuf> {
    let name = format!("{}-{}", contestant.peer.name, workload.name);
    let processes = cpu::tree(&contestant.server.id()).join(",");
    let data = folder.join(format!("{name}.perf"));
    let recorded = Command::new("perf")
        .args(["record", "-q", "-F", &SAMPLES.to_string()])
        .args(["--call-graph", "dwarf,16384", "-p", &processes, "-o"])
        .arg(&data)
        .args(["sleep", &seconds.to_string()])
        .stdout(Stdio::null())
        .output()
        .context("perf")?;
    let said = String::from_utf8_lossy(&recorded.stderr);
    ensure!(recorded.status.success(), "perf record: {said}");
    let script = Command::new("perf")
        .args(["script", "--no-inline", "-F", "comm,pid,tid,time,event,ip,sym,dso", "-i"])
        .arg(&data)
        .stderr(Stdio::null())
        .output()?;
    fs::remove_file(&data)?;
    let file = folder.join(format!("{name}.svg"));
    let title = format!("{}, {}", contestant.peer.name, workload.title());
    fs::write(&file, svg(&script.stdout, title)?)?;
    Ok(file)
}

/// Draws what `perf script` prints.
fn svg(script: &[u8], title: String) -> Result<Vec<u8>> {
    let mut samples = Vec::new();
    Folder::default().collapse(script, &mut samples)?;
    ensure!(!samples.is_empty(), "perf took no samples");
    let mut options = flamegraph::Options::default();
    options.title = title;
    // A function has the same color in each graph.
    options.deterministic = true;
    let mut svg = Vec::new();
    flamegraph::from_reader(&mut options, &samples[..], &mut svg)?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_frames_in_their_callers() {
        let sample = |stack: &str| format!("worker 7/8 1.5: cycles:\n{stack}\n");
        let script = sample("\t1a send::h0123456789abcdef (s)\n\t2b main (s)\n")
            + &sample("\t3c main (s)\n");
        let drawn = svg(script.as_bytes(), "a<b".to_owned()).unwrap();
        let drawn = String::from_utf8(drawn).unwrap();
        for part in ["a&lt;b", "send (1 samples, 50.00%)", "main (2 samples, 100.00%)"] {
            assert!(drawn.contains(part), "{part}");
        }
        assert!(svg(b"", String::new()).is_err());
    }
}
