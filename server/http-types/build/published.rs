//! Cargo's copy of the published crate: where it lies, and whether it is the one that the patch is for.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::source::files;

/// Version of http that the patch is for.
const VERSION: &str = "1.5.0";

/// SHA-256 of that version's `src/`: of each file in the order of their paths, the path, the length and the bytes.
const SOURCE_SHA256: &str = "b750f43d1abacb6a1278b6d1a58c3bef013c34a4362b2682fde35cd903476c53";

/// Returns the folder of the published crate: in cargo's registry, or in `vendor/`.
///
/// # Errors
/// cargo has no such crate, or its source is not the one that the patch is for.
pub fn folder() -> Result<PathBuf, String> {
    let json = metadata(&["--offline"])
        .or_else(|_| metadata(&[]))
        .map_err(|e| format!("cargo metadata, which says where http is: {e}"))?;
    let json: serde_json::Value =
        serde_json::from_slice(&json).map_err(|e| format!("cargo metadata: {e}"))?;
    let folder = { json["packages"].as_array().into_iter().flatten() }
        .find(|p| p["name"] == "http" && p["version"] == VERSION)
        .and_then(|p| Path::new(p["manifest_path"].as_str()?).parent())
        .ok_or_else(|| format!("Cargo.lock has no http {VERSION}"))?
        .to_path_buf();
    let found = digest(&folder.join("src"))?;
    if found == SOURCE_SHA256 {
        Ok(folder)
    } else {
        Err(format!(
            "{}: not the source of http {VERSION} (SHA-256 {found}, expected {SOURCE_SHA256}); \
             see server/http-types/README.md, \"Updates\"",
            folder.display()
        ))
    }
}

fn metadata(extra: &[&str]) -> Result<Vec<u8>, String> {
    let cargo = env::var_os("CARGO").ok_or("cargo sets CARGO")?;
    let out = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked"])
        .args(extra)
        .output()
        .map_err(|e| e.to_string())?;
    if out.status.success() {
        Ok(out.stdout)
    } else {
        Err(String::from_utf8_lossy(&out.stderr).into_owned())
    }
}

fn digest(root: &Path) -> Result<String, String> {
    let mut hash = Sha256::new();
    for path in files(root)? {
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path);
        hash.update(format!("{} {}\n", name.display(), bytes.len()));
        hash.update(&bytes);
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}
