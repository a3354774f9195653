//! Compiles `shim.c` against libdpdk, as pkg-config describes it, and links both.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo configures a build script by the environment"
)]

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    if std::env::var_os("CARGO_FEATURE_LIBDPDK").is_none() {
        return;
    }
    let library = pkg_config::Config::new().atleast_version("22.11").probe("libdpdk");
    if let Err(error) = library {
        panic!("install libdpdk-dev (Debian), or build without the feature `dpdk`: {error}");
    }
    // The instruction set that its headers need, and a header to include first, are flags that the crate pkg-config drops.
    let output = Command::new("pkg-config")
        .args(["--cflags", "libdpdk"])
        .output()
        .expect("pkg-config has just run");
    let flags = String::from_utf8(output.stdout).expect("flags are text");
    let mut build = cc::Build::new();
    build.file("src/shim.c").opt_level(3);
    build.flag("-Wno-deprecated-declarations");
    for flag in flags.split_whitespace() {
        build.flag(flag);
    }
    build.compile("sluicegate_dpdk_shim");
}
