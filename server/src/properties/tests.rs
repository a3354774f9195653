use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sluicegate_cc::Registry;
use sluicegate_config::Config;
use sluicegate_sim::Rng;

use super::*;

/// A trial, and how many strings it takes here.
type Trial = (&'static str, fn(&[u8]) -> bool, u64);

/// The properties by the names of their fuzz targets.
const TRIALS: [Trial; 14] = [
    ("connection_id", connection_id, 5_000),
    ("datagrams", datagrams, 1_000),
    ("file", file, 5_000),
    ("frames", frames, 300),
    ("handover", handover, 2_000),
    ("head", head, 5_000),
    ("header", header, 5_000),
    ("line", line, 2_000),
    ("path", path, 5_000),
    ("priority", priority, 5_000),
    ("response", response, 5_000),
    ("route", route, 5_000),
    ("token", token, 3_000),
    ("upstream", upstream, 5_000),
];

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn names(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Strings that get far.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let files = names(&fuzz().join("seeds").join(target)).into_iter();
    files.map(|file| std::fs::read(file).unwrap()).collect()
}

/// Says which string it was, where a trial ends in panic.
struct Reported<'a>(&'a str, u64, &'a [u8]);

impl Drop for Reported<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}, seed {}: {:?}", self.0, self.1, self.2.escape_ascii().to_string());
        }
    }
}

/// Bytes that mean something somewhere.
const WORDS: [&[u8]; 16] = [
    b"\x1e", b"\x1f", b"/", b"..", b"%2e", b"%2F", b"%00", b"\\", b"\r\n", b"\0", b"bytes=", b"0-",
    b",", b"\"", b":path", b"\xff",
];

fn below(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.bits() % bound.max(1) as u64).unwrap()
}

/// Anything at all, or a seed with a few changes.
fn string(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    if rng.bits().is_multiple_of(8) {
        let length = below(rng, 300);
        return (0..length).map(|_| rng.bits().to_le_bytes()[0]).collect();
    }
    let mut string = seeds[below(rng, seeds.len())].clone();
    for _ in 0..=rng.bits() % 4 {
        let at = below(rng, string.len() + 1);
        let end = (at + below(rng, 6)).min(string.len());
        let new: Vec<u8> = match rng.bits() % 4 {
            0 => Vec::new(),
            1 => rng.bits().to_le_bytes()[..below(rng, 4)].to_vec(),
            2 => WORDS[below(rng, WORDS.len())].to_vec(),
            _ => {
                let other = &seeds[below(rng, seeds.len())];
                let from = below(rng, other.len());
                other[from..(from + below(rng, 40)).min(other.len())].to_vec()
            }
        };
        string.splice(at..end, new);
    }
    string
}

/// Tries the seeds and strings around them. At least one in twenty must reach what lies behind the first check.
fn holds(target: &str) {
    let (_, trial, count) = *TRIALS.iter().find(|(name, ..)| *name == target).unwrap();
    let seeds = seeds(target);
    for seed in &seeds {
        let _reported = Reported(target, 0, seed);
        assert!(trial(seed), "a seed gets nowhere");
    }
    let mut reached = 0;
    for seed in 1..=count {
        let string = string(&mut Rng::new(seed), &seeds);
        let _reported = Reported(target, seed, &string);
        reached += u64::from(trial(&string));
    }
    println!("{target}: {reached} of {count} strings got past the first check");
    assert!(reached > count / 20, "{target}: {reached} of {count}");
}

#[test]
fn connection_ids_for_balancers() {
    holds("connection_id");
}

#[test]
fn datagrams_from_anybody() {
    holds("datagrams");
}

#[test]
fn frames_in_packets() {
    holds("frames");
}

#[test]
fn paths_of_requests() {
    holds("path");
}

#[test]
fn requests_for_files() {
    holds("file");
}

#[test]
fn messages_of_another_process() {
    holds("handover");
}

#[test]
fn heads_and_trailers() {
    holds("head");
}

#[test]
fn requests_to_upstreams() {
    holds("upstream");
}

#[test]
fn responses_of_upstreams() {
    holds("response");
}

#[test]
fn headers_of_packets() {
    holds("header");
}

#[test]
fn lines_of_the_access_log() {
    holds("line");
}

#[test]
fn priorities() {
    holds("priority");
}

#[test]
fn requests_for_routes() {
    holds("route");
}

#[test]
fn tokens() {
    holds("token");
}

/// No seed and no target is forgotten; that of configurations stands beside their crate's own test.
#[test]
fn targets_are_trials() {
    let stems = |folder: &str| -> Vec<String> {
        let names = names(&fuzz().join(folder)).into_iter();
        names.map(|name| name.file_stem().unwrap().to_string_lossy().into_owned()).collect()
    };
    let mut expected: Vec<_> = TRIALS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    expected.push("configuration".to_owned());
    expected.sort();
    assert_eq!(stems("fuzz_targets"), expected);
    assert_eq!(stems("seeds"), expected);
    for (name, ..) in TRIALS {
        let target = fuzz().join("fuzz_targets").join(name).with_extension("rs");
        let target = std::fs::read_to_string(target).unwrap();
        assert!(target.contains(&format!("sluicegate::properties::{name}(bytes)")));
    }
    for seed in seeds("configuration") {
        let text = String::from_utf8(seed).unwrap();
        Config::from_toml("seed.toml", &text, &Registry::builtin()).unwrap();
    }
}
