//! Frames in packets that are sealed with the keys of a connection.

#![no_main]

/// Counts what the endpoint allocates.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sluicegate::properties::frames(bytes);
});
