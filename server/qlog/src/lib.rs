//! qlog traces of QUIC connections, of any stack and version: what went wrong, the facts, a picture, another format.
//!
//! [`reader`] turns a file into [`event`]s, one at a time; [`analysis`] and [`plot`] follow them with a state of bounded size, so a file
//! of any length fits. Nothing here opens sockets or knows a QUIC library. Only [`reader::open`] reads files.

pub mod analysis;
pub mod convert;
pub mod event;
pub mod follow;
mod number;
pub mod plot;
pub mod reader;
pub mod summary;
pub mod text;
pub mod verdict;
pub mod wait;
mod wall_clock;
