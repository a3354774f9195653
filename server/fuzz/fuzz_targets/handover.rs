//! What another process of the server says during an upgrade.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::handover(bytes);
});
