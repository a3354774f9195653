//! Flame graphs of a running process, from samples that `perf` takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use inferno::flamegraph;

/// Takes samples of a process, so many per second for so many seconds, and draws `FOLDER/NAME.svg`.
pub(crate) fn draw(
    folder: &Path,
    name: &str,
    title: &str,
    process: &str,
    (per_second, seconds): (u32, f64),
) -> Result<PathBuf> {
    let data = folder.join(format!("{name}.perf"));
    let recorded = Command::new("perf")
        .args(["record", "-q", "-F", &per_second.to_string()])
        .args(["--call-graph", "dwarf,16384", "-p", process, "-o"])
        .arg(&data)
        .args(["sleep", &seconds.to_string()])
        .stdout(Stdio::null())
        .output()
        .context("perf")?;
    let said = String::from_utf8_lossy(&recorded.stderr);
    ensure!(recorded.status.success(), "perf record: {said}");
    let script = Command::new("perf")
        .args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"])
        .arg(&data)
        .stderr(Stdio::null())
        .output()?;
    fs::remove_file(&data)?;
    let samples = fold(&String::from_utf8_lossy(&script.stdout));
    ensure!(!samples.is_empty(), "perf took no samples");
    let file = folder.join(format!("{name}.svg"));
    fs::write(&file, svg(&samples, title)?)?;
    Ok(file)
}

/// Reads samples: a line with the thread's name, then one per function, the innermost first, then an empty one. Returns a line for
/// each, as inferno reads them.
fn fold(script: &str) -> Vec<String> {
    let line = |sample: &str| {
        let mut lines = sample.lines().filter(|line| !line.is_empty());
        let thread = lines.next()?.trim();
        let mut names: Vec<String> = lines.map(|line| function(line).replace(';', ":")).collect();
        names.push(thread.to_owned());
        names.reverse();
        Some(format!("{} 1", names.join(";")))
    };
    script.split("\n\n").filter_map(line).collect()
}

/// Returns the name of the function in a line of address and name, without the hash that Rust appends.
fn function(line: &str) -> &str {
    let name = line.trim().split_once(' ').map_or("?", |(_, name)| name);
    match name.rsplit_once("::h") {
        Some((plain, hash)) if hash.len() == 16 => plain,
        _ => name,
    }
}

fn svg(samples: &[String], title: &str) -> Result<Vec<u8>> {
    let mut options = flamegraph::Options::default();
    options.title = format!("{title}: {} samples", samples.len());
    // A function has the same color in each graph.
    options.deterministic = true;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, samples.iter().map(String::as_str), &mut svg)?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_frames_in_their_callers() {
        let script =
            "worker\n\t  1a send::h0123456789abcdef\n\t  2b main\n\nworker\n\t  3c main\n\n";
        let samples = fold(script);
        assert_eq!(samples, ["worker;main;send 1", "worker;main 1"]);
        let drawn = String::from_utf8(svg(&samples, "a<b").unwrap()).unwrap();
        assert!(drawn.contains("a&lt;b: 2 samples"));
        assert!(drawn.contains("send (1 samples, 50.00%)"));
    }
}
