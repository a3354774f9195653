//! Tokens of Retry packets.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::token(bytes);
});
