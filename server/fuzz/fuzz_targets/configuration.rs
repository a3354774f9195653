//! Texts read as a configuration.

#![no_main]

#[path = "../../../config/tests/all/any_bytes/properties.rs"]
mod properties;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(broken) = properties::check(text) {
        panic!("{broken}");
    }
});
