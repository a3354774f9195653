//! Checks every algorithm against the rules in `cc/sim/src/properties/`: `cargo +nightly fuzz run any_bytes` in `cc/`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_cc::Registry;
use sluicegate_sim::properties;

fuzz_target!(|bytes: &[u8]| {
    for algorithm in &Registry::builtin() {
        if let Err(broken) = properties::any_bytes(algorithm, bytes) {
            panic!("{broken}");
        }
    }
});
