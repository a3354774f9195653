//! Priorities of responses.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::priority(bytes);
});
