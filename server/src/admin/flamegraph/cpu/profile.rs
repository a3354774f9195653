//! A finished profile, and its formats.

use std::collections::BTreeMap;
use std::iter::once;
use std::time::Duration;

use pprof::protos::Message as _;
use pprof::{Frames, Report, Symbol};

use crate::admin::flamegraph::error::RecordError;
use crate::admin::flamegraph::graph::{Profile, compress, draw, folded_name};
use crate::admin::flamegraph::query::Threads;

/// Samples of the CPU time of this process.
pub(super) struct CpuProfile {
    pub(super) report: Report,
    /// CPU time that all threads used while it was recorded.
    pub(super) cpu_time: Duration,
    /// Length of the recording.
    pub(super) length: Duration,
    /// Samples for each second of CPU time.
    pub(super) frequency: u16,
    pub(super) threads: Threads,
}

impl CpuProfile {
    /// Returns the number of samples.
    pub(super) fn samples(&self) -> usize {
        let counts = self.report.data.values();
        counts.map(|count| count.unsigned_abs()).sum()
    }
}

impl Profile for CpuProfile {
    fn svg(&self) -> Result<Vec<u8>, RecordError> {
        let samples = self.samples();
        if samples == 0 {
            return Err(RecordError::NoSamples(self.cpu_time));
        }
        let title = format!(
            "sluicegate {}: {:.2} s of CPU time in {} s, {samples} samples at {} Hz",
            env!("CARGO_PKG_VERSION"),
            self.cpu_time.as_secs_f64(),
            self.length.as_secs(),
            self.frequency,
        );
        draw(title, "samples", &self.folded())
    }

    /// Its numbers are samples, and a thread, or what merges several, is outermost.
    fn folded(&self) -> String {
        let mut stacks: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        self.report.data.iter().for_each(|(frames, count)| {
            *stacks.entry(stack(frames, self.threads)).or_default() += count.unsigned_abs();
        });
        let lines = stacks.iter();
        lines.map(|(stack, count)| format!("{} {count}\n", stack.join(";"))).collect()
    }

    fn pprof(&self) -> Result<Vec<u8>, RecordError> {
        compress(&self.report.pprof()?.encode_to_vec())
    }
}

/// Returns the names of the thread and of the functions, outermost first.
fn stack(frames: &Frames, threads: Threads) -> Vec<String> {
    let functions = frames.frames.iter().rev().flatten().map(Symbol::name);
    let thread = frames.thread_name_or_id();
    let thread = match threads {
        Threads::Merged => merged(&thread),
        Threads::Each => thread,
    };
    let names = once(thread).chain(functions);
    names.map(|name| folded_name(&name)).collect()
}

/// Returns the name that stands for all threads of a kind: `default-*` for the workers of a group, as `default-0`, and
/// `default-*-origin` for their origin threads, of whose names the kernel keeps 15 bytes.
fn merged(thread: &str) -> String {
    const ORIGIN: &str = "-origin";
    let (start, end) = match thread.rfind("-o") {
        Some(at) if ORIGIN.starts_with(&thread[at..]) => (&thread[..at], ORIGIN),
        _ => (thread, ""),
    };
    match start.rsplit_once('-') {
        Some((group, index)) if !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{group}-*{end}")
        }
        _ => thread.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::UNIX_EPOCH;

    use flate2::read::GzDecoder;

    use super::*;

    /// Stack of a thread `default-0`, with functions, innermost first.
    fn frames(functions: &[&str], nanoseconds: u64) -> Frames {
        let symbol = |name: &&str| Symbol {
            name: Some(name.as_bytes().to_vec()),
            addr: None,
            lineno: None,
            filename: None,
        };
        let frames = functions.iter().map(|name| vec![symbol(name)]);
        Frames {
            frames: frames.collect(),
            thread_name: "default-0".into(),
            thread_id: 1,
            sample_timestamp: UNIX_EPOCH + Duration::from_nanos(nanoseconds),
        }
    }

    fn profile(samples: impl IntoIterator<Item = (Frames, isize)>) -> CpuProfile {
        let report = Report { data: samples.into_iter().collect(), timing: Default::default() };
        CpuProfile {
            report,
            cpu_time: Duration::from_millis(1500),
            length: Duration::from_secs(2),
            frequency: 99,
            threads: Threads::Each,
        }
    }

    #[test]
    fn stacks_with_the_same_functions_are_one_line() {
        let profile = profile([
            (frames(&["memcpy", "turn", "main"], 1), 2),
            (frames(&["memcpy", "turn", "main"], 2), 3),
            (frames(&["_ZN13_$LT$impl$GT$1f17h0123456789abcdefE", "main"], 3), 3),
            (frames(&["[u8; 2]::f", "main"], 4), 4),
        ]);
        assert_eq!(
            profile.folded(),
            "default-0;main;<impl>::f 3\ndefault-0;main;[u8: 2]::f 4\ndefault-0;main;turn;memcpy 5\n"
        );
        assert_eq!(profile.samples(), 12);
        let svg = String::from_utf8(profile.svg().unwrap()).unwrap();
        assert!(svg.contains("turn (5 samples, 41.67%)"), "{svg}");
        assert!(svg.contains("1.50 s of CPU time in 2 s, 12 samples at 99 Hz"));
        assert!(svg.contains("&lt;impl&gt;::f"));
        let mut message = Vec::new();
        let compressed = profile.pprof().unwrap();
        let mut decoder = GzDecoder::new(&*compressed);
        decoder.read_to_end(&mut message).unwrap();
        let message = pprof::protos::Profile::decode(&*message).unwrap();
        assert_eq!(message.sample.len(), 4);
        let has = |name: &str| message.string_table.iter().any(|text| text == name);
        assert!(has("memcpy") && has("<impl>::f") && has("default-0"));
    }

    #[test]
    fn workers_of_a_group_are_one_frame() {
        for (thread, expected) in [
            ("default-0", "default-*"),
            ("default-17", "default-*"),
            ("edge-2-0", "edge-2-*"),
            ("default-0-origin", "default-*-origin"),
            ("default-0-origi", "default-*-origin"),
            ("default-10-ori", "default-*-origin"),
            ("control", "control"),
            ("control-socket", "control-socket"),
            ("a-o", "a-o"),
            ("1234", "1234"),
            ("a-", "a-"),
        ] {
            assert_eq!(merged(thread), expected, "{thread}");
        }
        let mut second = frames(&["turn", "main"], 2);
        second.thread_name = "default-1".into();
        let mut both = profile([(frames(&["turn", "main"], 1), 2), (second, 3)]);
        assert_eq!(both.folded(), "default-0;main;turn 2\ndefault-1;main;turn 3\n");
        both.threads = Threads::Merged;
        assert_eq!(both.folded(), "default-*;main;turn 5\n");
        let svg = String::from_utf8(both.svg().unwrap()).unwrap();
        assert!(svg.contains("default-* (5 samples, 100.00%)"), "{svg}");
        assert!(svg.contains("truncate_text_right = true"), "{svg}");
    }

    #[test]
    fn a_function_is_one_frame_beside_one_whose_name_begins_alike() {
        let profile = profile([
            (frames(&["wake", "park", "main"], 1), 1),
            (frames(&["wake", "park::inner", "main"], 2), 2),
            (frames(&["park", "main"], 3), 4),
        ]);
        let svg = String::from_utf8(profile.svg().unwrap()).unwrap();
        assert!(svg.contains("park (5 samples, 71.43%)"), "{svg}");
        assert!(svg.contains("park::inner (2 samples, 28.57%)"), "{svg}");
    }

    #[test]
    fn a_graph_without_samples_is_refused_with_the_cpu_time() {
        let profile = profile([]);
        let refusal = profile.svg().unwrap_err().to_string();
        assert!(refusal.contains("1.50 s of CPU time"), "{refusal}");
        assert_eq!(profile.folded(), "");
        assert!(profile.pprof().is_ok());
    }
}
