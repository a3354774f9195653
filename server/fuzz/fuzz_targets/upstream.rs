//! Requests as upstreams receive them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::upstream(bytes);
});
