//! Events of a trace, the same for all versions of qlog: what the analysis and the picture need of them, and no more.

mod data;
mod frames;
mod scalar;

pub use data::{
    Blocked, Kind, PacketSums, RawEvent, RecoveryMetrics, Space, TraceEvent, TracedPacket,
};
pub use frames::{Close, Frames, StreamPiece};
pub use scalar::Word;
