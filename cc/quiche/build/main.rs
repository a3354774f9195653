//! Makes this package's source: cargo's own copy of quiche, our patches, our clock, our controller socket.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script gets everything from its environment"
)]

mod clock;
mod left_out;
mod patch;
mod source;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Our files, and their places in quiche's source.
const ADDED: [(&str, &str); 21] = [
    ("src/ecn.rs", "ecn.rs"),
    ("src/ecn/congestion.rs", "ecn/congestion.rs"),
    ("src/ecn/shares.rs", "ecn/shares.rs"),
    ("src/ecn/tests.rs", "ecn/tests.rs"),
    ("src/external.rs", "recovery/gcongestion/external.rs"),
    ("src/crypto_stream.rs", "stream/crypto_stream.rs"),
    ("src/data_packet.rs", "data_packet.rs"),
    ("src/kept.rs", "recovery/kept.rs"),
    ("src/lost.rs", "recovery/gcongestion/external/lost.rs"),
    ("src/sender.rs", "recovery/gcongestion/external/sender.rs"),
    ("src/extension.rs", "extension.rs"),
    ("src/extension/figures.rs", "extension/figures.rs"),
    ("src/extension/held.rs", "extension/held.rs"),
    ("src/extension/limits.rs", "extension/limits.rs"),
    ("src/extension/switch.rs", "extension/switch.rs"),
    ("src/extension/traces.rs", "extension/traces.rs"),
    ("src/overdue.rs", "stream/overdue.rs"),
    ("src/encoded.rs", "h3/encoded.rs"),
    ("src/redact.rs", "redact.rs"),
    ("src/repeats.rs", "repeats.rs"),
    ("src/spaces.rs", "packet/spaces.rs"),
];

/// Upstream's tests that do not run, with reasons.
const LEFT_OUT: &str = "tests/left-out.txt";

/// Names a folder with quiche's `src/` and `examples/`, instead of the copy that cargo fetched.
const SOURCE_VARIABLE: &str = "SLUICEGATE_QUICHE_SOURCE";

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=patches");
    println!("cargo::rerun-if-changed={LEFT_OUT}");
    for (name, _) in ADDED {
        println!("cargo::rerun-if-changed={name}");
    }
    println!("cargo::rerun-if-env-changed={SOURCE_VARIABLE}");

    let published = match env::var_os(SOURCE_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => source::published()?,
    };
    println!("cargo::rerun-if-changed={}", published.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?).join("quiche");
    let _ = fs::remove_dir_all(&out);
    source::copy(&published.join("src"), &out)?;

    for patch in patch::series(Path::new("patches"))? {
        patch.apply(&out)?;
    }
    left_out::remove(&source::read(Path::new(LEFT_OUT))?, &out)?;
    for (name, place) in ADDED {
        source::write(&out.join(place), &source::read(Path::new(name))?)?;
    }
    clock::replace(&out)?;
    source::locate_examples(&out)?;
    source::strip_crate_header(&out.join("lib.rs"))?;

    // What upstream's tests read.
    println!("cargo::rustc-env=QUICHE_EXAMPLES={}", published.join("examples").display());
    // quiche's own build script says the same.
    println!("cargo::rustc-check-cfg=cfg(boring_v5)");
    if env::var("DEP_BORINGSSL_VERSION_MAJOR").as_deref() == Ok("5") {
        println!("cargo::rustc-cfg=boring_v5");
    }
    println!("cargo::rustc-link-lib=static=ssl");
    println!("cargo::rustc-link-lib=static=crypto");
    Ok(())
}
