//! Lets `src/virtual_net/random.rs` stand before the TLS library's random numbers, which quiche uses too, and tells
//! `src/counts/made_by.rs` the compiler's version.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo configures a build script by the environment"
)]

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg=-Wl,--wrap=RAND_bytes");
    let rustc = env::var_os("RUSTC").expect("cargo names the compiler");
    let version = Command::new(rustc).arg("--version").output();
    let version = version.expect("the compiler runs").stdout;
    let version = String::from_utf8_lossy(&version);
    println!("cargo::rustc-env=SLUICEGATE_RUSTC={}", version.trim());
}
