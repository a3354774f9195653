//! First headers of datagrams, and connection IDs.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::header(bytes);
});
