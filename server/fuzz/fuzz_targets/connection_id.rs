//! Connection IDs for load balancers.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::connection_id(bytes);
});
