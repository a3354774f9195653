//! Frames to this host, fast path and slow.

mod fast;
mod next_hops;
mod slow;
