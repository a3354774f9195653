//! Requests that are looked up.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::route(bytes);
});
