//! Responses of upstreams over HTTP/1.1.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::response(bytes);
});
