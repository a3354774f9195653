//! Frames of the slow path, over time.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = sluicegate_frames::properties::stack(bytes);
});
