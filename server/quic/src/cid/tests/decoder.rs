//! IDs of every format, read by a decoder in Python that shares no code with this one.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;

const IDS: usize = 10_000;

/// Format, configuration, server ID, length of the nonce, and whether there is a key.
type Case = (&'static str, u8, &'static str, usize, bool);

const CASES: &[Case] = &[
    ("katran", 0, "0102", 0, false),
    ("katran", 0, "ff0203", 0, false),
    ("katran", 0, "fe020304", 0, false),
    ("quic-lb", 0, "0102030405060708", 7, false),
    ("quic-lb", 1, "0102030405060708", 8, true),
    ("quic-lb", 2, "010203", 5, true),
    ("quic-lb", 3, "010203", 4, true),
    ("quic-lb", 4, "0102030405060708090a0b0c", 5, true),
    ("quic-lb", 6, "0102030405060708090a0b", 4, true),
];

#[expect(clippy::disallowed_methods, reason = "a test reads its own environment")]
fn python() -> Option<std::path::PathBuf> {
    let named = std::env::var_os("SLUICEGATE_TEST_PYTHON").map(std::path::PathBuf::from);
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python");
    named.or_else(|| Some(made.into())).filter(|path| path.exists())
}

#[test]
fn a_decoder_of_its_own_reads_ten_thousand_ids_of_each_format() {
    let Some(python) = python() else {
        let remedy = "set $SLUICEGATE_TEST_PYTHON, or run `make venv`";
        // What installs aioquic installs the decoder's library.
        sluicegate_dataplane::requirements::skip("aioquic", &remedy);
        return;
    };
    let key: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let entropy = &mut Entropy::new();
    let mut lines = String::new();
    for (format, config, server_id, nonce, has_key) in CASES {
        let mut table = format!("format = \"{format}\"\nserver_id = \"{server_id}\"\n");
        if *format == "quic-lb" {
            table += &format!("config = {config}\nnonce = {nonce}\n");
        }
        let key = if *has_key { key.as_str() } else { "-" };
        if *has_key {
            table += "key_file = \"key\"\n";
        }
        let schemes = configured(&table);
        let mut workers = [(); 4].map(|()| schemes.scheme());
        for number in 0..IDS {
            let index = number % workers.len();
            let worker = u8::try_from(index).unwrap();
            let id = workers[index].generate(worker, 9, entropy);
            lines += &format!("{format} {config} {server_id} {nonce} {key} {id}\n");
        }
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cid/tests/decoder.py");
    let (input, output) = (Stdio::piped(), Stdio::piped());
    let mut child = Command::new(python).arg(script).stdin(input).stdout(output).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let count = String::from_utf8(output.stdout).unwrap();
    assert_eq!(count.trim(), (CASES.len() * IDS).to_string());
}
