//! One contract, run on every driver that can open here: a new backend is covered by being listed in `rig::Kind::ALL`.
#![expect(
    clippy::disallowed_methods,
    reason = "the deadline test reads the clock"
)]
#![expect(clippy::unwrap_used, reason = "what can't be set up fails the test")]

mod flow;
mod meta;
mod namespace;
mod rig;
mod sharing;
mod sleep;
mod trouble;
