//! Every algorithm through the trial of `cc/src/trial/`: `cargo +nightly fuzz run any_bytes` in `cc/`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_cc::{Registry, trial};

fuzz_target!(|bytes: &[u8]| {
    for algorithm in &Registry::builtin() {
        if let Err(broken) = trial::any_bytes(algorithm, bytes) {
            panic!("{broken}");
        }
    }
});
