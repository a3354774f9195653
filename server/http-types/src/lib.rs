//! http, the crate of the types that hyper and h2 share with the server, with request targets that keep every visible character.
//!
//! There is no code of http in this folder: the build script takes cargo's own copy of the crate and applies `patches/`.
#![allow(warnings, clippy::all, reason = "the included source keeps its authors' lint settings")]

include!(concat!(env!("OUT_DIR"), "/http/lib.rs"));
