//! Requests for files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::file(bytes);
});
