//! Frames to the parser.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = sluicegate_frames::properties::frame(bytes);
});
