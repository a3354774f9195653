//! Flame graphs of a running process, from samples that `perf` takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Width of the graph, height of a frame, and width of a letter, pixels.
const WIDTH: f64 = 1200.0;
const HEIGHT: usize = 16;
const LETTER: f64 = 6.5;
/// Narrower frames are left out, pixels.
const NARROWEST: f64 = 0.4;

/// A function in its callers, with the samples in it and in what it calls.
#[derive(Debug, Default)]
struct Frame {
    samples: usize,
    called: BTreeMap<String, Frame>,
}

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
    let root = fold(&String::from_utf8_lossy(&script.stdout));
    ensure!(root.samples > 0, "perf took no samples");
    let file = folder.join(format!("{name}.svg"));
    fs::write(&file, svg(&root, title))?;
    Ok(file)
}

/// Reads samples: a line with the thread's name, then one per function, the innermost first, then an empty one.
fn fold(script: &str) -> Frame {
    let mut root = Frame::default();
    for sample in script.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.is_empty());
        let Some(thread) = lines.next() else {
            continue;
        };
        let functions: Vec<&str> = lines.map(function).collect();
        root.samples += 1;
        let mut frame = &mut root;
        for name in std::iter::once(thread.trim()).chain(functions.into_iter().rev()) {
            frame = frame.called.entry(name.to_owned()).or_default();
            frame.samples += 1;
        }
    }
    root
}

/// Returns the name of the function in a line of address and name, without the hash that Rust appends.
fn function(line: &str) -> &str {
    let name = line.trim().split_once(' ').map_or("?", |(_, name)| name);
    match name.rsplit_once("::h") {
        Some((plain, hash)) if hash.len() == 16 => plain,
        _ => name,
    }
}

fn depth(frame: &Frame) -> usize {
    1 + frame.called.values().map(depth).max().unwrap_or(0)
}

fn svg(root: &Frame, title: &str) -> String {
    let height = (depth(root) + 2) * HEIGHT;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"monospace\" \
         font-size=\"11\">\n<text x=\"4\" y=\"12\">{}: {} samples</text>\n",
        escaped(title),
        root.samples
    );
    let scale = WIDTH / root.samples as f64;
    children(
        &mut out,
        root,
        (0.0, height - HEIGHT),
        (scale, root.samples),
    );
    out.push_str("</svg>\n");
    out
}

/// Writes what `frame` calls above it: from `left` on, `bottom` being the top of the frame itself.
fn children(
    out: &mut String,
    frame: &Frame,
    (mut left, bottom): (f64, usize),
    scale: (f64, usize),
) {
    let y = bottom - HEIGHT;
    for (name, called) in &frame.called {
        let width = called.samples as f64 * scale.0;
        if width >= NARROWEST {
            let share = 100.0 * called.samples as f64 / scale.1 as f64;
            let letters = name.chars().enumerate();
            let shown: String = letters
                .take_while(|(index, _)| (*index as f64 + 1.0) * LETTER < width - 4.0)
                .map(|(_, letter)| letter)
                .collect();
            let name = escaped(name);
            // Written to a string, which does not fail.
            let _ = writeln!(
                out,
                "<g><title>{name}: {} samples, {share:.1} %</title><rect x=\"{left:.1}\" y=\"{y}\" width=\"{width:.1}\" \
                 height=\"{}\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{}\">{}</text></g>",
                called.samples,
                HEIGHT - 1,
                color(&name),
                left + 2.0,
                y + 11,
                escaped(&shown)
            );
            children(out, called, (left, y), scale);
        }
        left += width;
    }
}

/// Returns a warm color, the same for the same name.
fn color(name: &str) -> String {
    let sum = name
        .bytes()
        .fold(7u32, |sum, byte| sum.wrapping_mul(31) ^ u32::from(byte));
    format!("hsl({}, 80%, {}%)", 10 + sum % 40, 62 + sum / 64 % 16)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_frames_in_their_callers() {
        let script =
            "worker\n\t  1a send::h0123456789abcdef\n\t  2b main\n\nworker\n\t  3c main\n\n";
        let root = fold(script);
        let main = &root.called["worker"].called["main"];
        assert_eq!((root.samples, main.samples), (2, 2));
        assert_eq!(main.called["send"].samples, 1);
        let drawn = svg(&root, "a<b");
        assert!(drawn.contains("a&lt;b: 2 samples"));
        assert!(drawn.contains("send: 1 samples, 50.0 %"));
    }
}
