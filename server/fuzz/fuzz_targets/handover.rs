//! Messages of another process of the server during an upgrade.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::handover(bytes);
});
