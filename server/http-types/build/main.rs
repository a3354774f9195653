//! Makes this package's source: cargo's own copy of http, with our patch.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script gets everything from its environment"
)]

#[path = "../../../cc/quiche/build/patch.rs"]
#[expect(dead_code, reason = "the patches of quiche stand in series")]
mod patch;
mod published;
#[path = "../../../cc/quiche/build/source.rs"]
#[expect(dead_code, reason = "what concerns quiche alone")]
mod source;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The patch.
const PATCH: &str = "patches/whole-targets.patch";

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
    println!("cargo::rerun-if-changed=../../cc/quiche/build");

    let published = published::folder()?;
    println!("cargo::rerun-if-changed={}", published.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?).join("http");
    let _ = fs::remove_dir_all(&out);
    source::copy(&published.join("src"), &out)?;
    let text = source::read(Path::new(PATCH))?;
    patch::Patch::new(PATCH.to_owned(), text).apply(&out)?;
    strip_crate_header(&out.join("lib.rs"))
}

/// Removes the crate's attributes: `include!` takes none, and our own `src/lib.rs` has them.
fn strip_crate_header(lib: &Path) -> Result<(), String> {
    let text = source::read(lib)?;
    let start = text
        .find("\n#[macro_use]\nmod convert;\n")
        .ok_or("lib.rs: no `mod convert` after the crate's attributes")?;
    source::write(lib, &text[start..])
}
