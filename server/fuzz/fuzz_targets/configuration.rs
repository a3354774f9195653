//! Texts read as a configuration.

#![no_main]

#[path = "../../../config/tests/any_bytes/trial.rs"]
mod properties;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(broken) = trial::answered(text) {
        panic!("{broken}");
    }
});
