//! Cargo's copy of the published crate: where it lies, whether it is the one that the patches are for, and copies of it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// Version of quiche that the patches are for.
const VERSION: &str = "0.30.0";

/// SHA-256 of that version's `src/`: of each file in the order of their paths, the path, the length and the bytes.
const SOURCE_SHA256: &str = "b958ba547991fe25a6754cd489e54790066401b3b8b62c32f72401ca6a2658bf";

/// Returns the folder of the published crate: in cargo's registry, or in `vendor/`.
///
/// # Errors
/// cargo has no such crate, or its source is not the one that the patches are for.
pub fn published() -> Result<PathBuf, String> {
    let json = metadata(&["--offline"])
        .or_else(|_| metadata(&[]))
        .map_err(|e| format!("cargo metadata, which says where quiche is: {e}"))?;
    let json: serde_json::Value =
        serde_json::from_slice(&json).map_err(|e| format!("cargo metadata: {e}"))?;
    let folder = json["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|p| p["name"] == "quiche" && p["version"] == VERSION)
        .and_then(|p| Path::new(p["manifest_path"].as_str()?).parent())
        .ok_or_else(|| format!("Cargo.lock has no quiche {VERSION}"))?
        .to_path_buf();
    let found = digest(&folder.join("src"))?;
    if found == SOURCE_SHA256 {
        Ok(folder)
    } else {
        Err(format!(
            "{}: not the source of quiche {VERSION} (SHA-256 {found}, expected {SOURCE_SHA256}); \
             see cc/quiche/README.md, \"Rebasing\"",
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
        let bytes = fs::read(&path).map_err(at(&path))?;
        let name = path.strip_prefix(root).unwrap_or(&path);
        hash.update(format!("{} {}\n", name.display(), bytes.len()));
        hash.update(&bytes);
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// Returns every file below a folder, in the order of their paths.
///
/// # Errors
/// A folder cannot be read.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(at(&folder))? {
            let path = entry.map_err(at(&folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Copies a folder; the source may be read-only, the copy is not.
///
/// # Errors
/// A file cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    for path in files(from)? {
        let target = to.join(path.strip_prefix(from).unwrap_or(&path));
        make_parent(&target)?;
        let bytes = fs::read(&path).map_err(at(&path))?;
        fs::write(&target, bytes).map_err(at(&target))?;
    }
    Ok(())
}

/// Reads a text file.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(at(path))
}

/// Writes a text file, and the folders that it needs.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    make_parent(path)?;
    fs::write(path, text).map_err(at(path))
}

fn make_parent(path: &Path) -> Result<(), String> {
    path.parent().map_or(Ok(()), |folder| fs::create_dir_all(folder).map_err(at(folder)))
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

/// Lets upstream's tests find the certificates of the published crate; they name them relative to its folder.
///
/// # Errors
/// A file cannot be read or written.
pub fn locate_examples(root: &Path) -> Result<(), String> {
    for path in files(root)? {
        let text = read(&path)?;
        if text.contains("\"examples/") {
            let mut parts = text.split("\"examples/");
            let mut located = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let (name, rest) = part.split_once('"').unwrap_or((part, ""));
                located += &format!("concat!(env!(\"QUICHE_EXAMPLES\"), \"/{name}\"){rest}");
            }
            write(&path, &located)?;
        }
    }
    Ok(())
}

/// Removes the crate's attributes from quiche's `lib.rs`: `include!` takes none, nor `extern crate`, and our own
/// `src/lib.rs` has them.
///
/// # Errors
/// The file does not begin as expected.
pub fn strip_crate_header(lib: &Path) -> Result<(), String> {
    let text = read(lib)?;
    let start = text
        .find("\nuse std::cmp;\n")
        .ok_or("lib.rs: no `use std::cmp` after the crate's attributes")?;
    write(lib, &text[start..])
}
