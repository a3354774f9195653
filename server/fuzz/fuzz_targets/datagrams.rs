//! Datagrams from many peers, over time.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::datagrams(bytes);
});
