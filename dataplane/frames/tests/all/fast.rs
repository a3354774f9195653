//! Frames through the parser: those that are written here, and those that should never be.

mod agreement;
mod bad_frames;
mod fixture;
mod foreign_frames;
mod round_trip;
