//! Tokens of Retry packets and of NEW_TOKEN frames.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::token(bytes);
});
