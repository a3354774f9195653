//! quiche with an open socket for congestion controllers (`cc`) and for the clock (`clock`).
//!
//! There is no quiche code in this folder: the build script takes cargo's own copy of the crate and applies `patches/`.
#![allow(warnings, clippy::all, reason = "the included source keeps its authors' lint settings")]

#[macro_use]
extern crate log;

pub mod clock;

pub use extension::{Figures, SendLimit};

include!(concat!(env!("OUT_DIR"), "/quiche/lib.rs"));
