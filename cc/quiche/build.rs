//! Makes this package's source: cargo's own copy of quiche, our patches, our clock, our controller socket.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is told everything by its environment"
)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

const VERSION: &str = "0.30.0";

/// Applied in this order.
const PATCHES: [&str; 15] = [
    "01-controller-factory",
    "02-packet-facts",
    "03-send-quantum",
    "04-path-change",
    "05-path-room",
    "06-qlog-pacing",
    "07-emptied-stream",
    "08-whole-datagrams",
    "09-restart-burst",
    "10-data-ran-out",
    "11-padding-counts",
    "12-http3-rules",
    "13-closed-requests",
    "14-whole-heads",
    "15-ended-streams",
];

/// Our files, and their places in quiche's source.
const ADDED: [(&str, &str); 3] = [
    ("src/external.rs", "recovery/gcongestion/external.rs"),
    ("src/sender.rs", "recovery/gcongestion/external/sender.rs"),
    ("src/extension.rs", "extension.rs"),
];

/// Every published file that a patch or this script changes by position, with the SHA-256 it was written against.
const CHECKED: [(&str, &str); 11] = [
    (
        "cid.rs",
        "8e27251ef24fe051629e65e35a972b61d1c76a5c0bc9e56f4924ed1eb19b09ad",
    ),
    (
        "h3/frame.rs",
        "434fe454f96fe1d3f7f4475b9008c9035907e8de9766b61b04ddebc04c2d8dcb",
    ),
    (
        "h3/mod.rs",
        "83cf26c3033cc2220ad09520c75d2126058d21cb99288ade20296e82b9649819",
    ),
    (
        "h3/qpack/decoder.rs",
        "bb43f47d5458e6d718358aed048327a653aecf7e93e505eb40a8b9911343aed5",
    ),
    (
        "h3/stream.rs",
        "ec992ebe411261b2eb51717fc8e0a92bee928328ff830b5d7be40b86faa9b19e",
    ),
    (
        "lib.rs",
        "ba74f8c2e8e134312c30e55e76c57cf13e030872a6531512a108069540ff2fb2",
    ),
    (
        "path.rs",
        "d0f9d6c5b62b1b922de6b46cc6c1aa36f10834d3d75a2094073b47f462700704",
    ),
    (
        "recovery/mod.rs",
        "649bc3c1d42f62a8717b2d8316bc04e40668717b223ecd30ef4d8882cf155555",
    ),
    (
        "recovery/gcongestion/mod.rs",
        "818233ddc3e514c2924b575a84f773eaafbebc8b57e66e2e44c4e2232e7d27ba",
    ),
    (
        "recovery/gcongestion/pacer.rs",
        "ad35e18573cc09b261b80e5a93cd16686077b17d4271fc6ca418e22d0d792d53",
    ),
    (
        "recovery/gcongestion/recovery.rs",
        "82881e1c8d4600954da48f67cd147bdbd8849f5979bb6ad080bd34f4709439ac",
    ),
];

/// Names a folder with quiche's `src/`, instead of the copy that cargo fetched.
const SOURCE_VARIABLE: &str = "SLUICEGATE_QUICHE_SOURCE";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=patches");
    for (name, _) in ADDED {
        println!("cargo::rerun-if-changed={name}");
    }
    println!("cargo::rerun-if-env-changed={SOURCE_VARIABLE}");

    let published = env::var_os(SOURCE_VARIABLE)
        .map_or_else(locate, PathBuf::from)
        .join("src");
    println!("cargo::rerun-if-changed={}", published.display());
    verify(&published);

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("quiche");
    let _ = fs::remove_dir_all(&out);
    copy(&published, &out);
    for name in PATCHES {
        let file = format!("patches/{name}.patch");
        apply(&file, &read(Path::new(&file)), &out);
    }
    for (name, place) in ADDED {
        write(&out.join(place), &read(Path::new(name)));
    }
    replace_clock(&out);
    strip_crate_header(&out.join("lib.rs"));

    // quiche's own build script says the same.
    println!("cargo::rustc-check-cfg=cfg(boring_v5)");
    if env::var("DEP_BORINGSSL_VERSION_MAJOR").as_deref() == Ok("5") {
        println!("cargo::rustc-cfg=boring_v5");
    }
    println!("cargo::rustc-link-lib=static=ssl");
    println!("cargo::rustc-link-lib=static=crypto");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    }
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// The folder of the published crate: in cargo's registry, or in `vendor/`.
fn locate() -> PathBuf {
    let metadata = |extra: &[&str]| {
        let cargo = env::var_os("CARGO").expect("cargo sets CARGO");
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
    };
    let json = metadata(&["--offline"])
        .or_else(|_| metadata(&[]))
        .unwrap_or_else(|e| panic!("cargo metadata, which tells where quiche is: {e}"));
    let json: serde_json::Value = serde_json::from_slice(&json).expect("cargo prints JSON");
    let manifest = json["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|p| p["name"] == "quiche" && p["version"] == VERSION)
        .and_then(|p| p["manifest_path"].as_str())
        .unwrap_or_else(|| panic!("Cargo.lock has no quiche {VERSION}"));
    Path::new(manifest)
        .parent()
        .expect("a file has a folder")
        .to_path_buf()
}

/// Fails, naming the file, where the source differs from what the patches were written against.
fn verify(source: &Path) {
    for (name, want) in CHECKED {
        let text = read(&source.join(name));
        let found: String = Sha256::digest(text.as_bytes())
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert!(
            found == want,
            "{}: not the file of quiche {VERSION} (SHA-256 {found}, expected {want}); \
             see cc/quiche/README.md, \"Rebasing\"",
            source.join(name).display()
        );
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
    let entries = fs::read_dir(from).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
    for entry in entries {
        let entry = entry.unwrap_or_else(|e| panic!("{}: {e}", from.display()));
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else {
            // The source may be read-only; a copy of its bytes is not.
            let bytes = fs::read(&source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
            fs::write(&target, bytes).unwrap_or_else(|e| panic!("{}: {e}", target.display()));
        }
    }
}

/// Applies a patch without context; every line that it removes must stand where it says.
fn apply(patch_name: &str, patch: &str, root: &Path) {
    let mut path = PathBuf::new();
    let mut lines: Vec<String> = Vec::new();
    let mut at = 0; // index into the new text
    for line in patch.lines().chain(["--- end"]) {
        if line.starts_with("--- ") {
            if !lines.is_empty() {
                write(&path, &(lines.join("\n") + "\n"));
                lines.clear();
            }
        } else if let Some(name) = line.strip_prefix("+++ b/src/") {
            path = root.join(name);
            lines = read(&path).lines().map(str::to_owned).collect();
        } else if let Some(hunk) = line.strip_prefix("@@ ") {
            at = hunk_start(hunk)
                .unwrap_or_else(|| panic!("{patch_name}: cannot read the hunk `{line}`"));
        } else if let Some(old) = line.strip_prefix('-') {
            let found = (at < lines.len()).then(|| lines.remove(at));
            assert!(
                found.as_deref() == Some(old),
                "{patch_name}: {}:{}: found {found:?}, expected {old:?}",
                path.display(),
                at + 1
            );
        } else if let Some(new) = line.strip_prefix('+') {
            lines.insert(at, new.to_owned());
            at += 1;
        }
    }
}

/// The index in the new text that `-l[,n] +l[,n] @@` begins at.
fn hunk_start(hunk: &str) -> Option<usize> {
    let new = hunk.split_once('+')?.1.split_once(' ')?.0;
    let (line, count) = new.split_once(',').unwrap_or((new, "1"));
    let line: usize = line.parse().ok()?;
    // A hunk that only removes names the line before it.
    if count == "0" {
        Some(line)
    } else {
        line.checked_sub(1)
    }
}

/// Lets `clock::now` answer wherever quiche reads the time.
fn replace_clock(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry
            .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
            .path();
        if path.is_dir() {
            replace_clock(&path);
        } else if path.extension().is_some_and(|x| x == "rs") {
            let text = read(&path);
            let ours = text
                .replace("std::time::Instant::now", "Instant::now")
                .replace("time::Instant::now", "Instant::now")
                .replace("Instant::now", "crate::clock::now")
                .replace(
                    "pkt_space.largest_rx_pkt_time.elapsed()",
                    "crate::clock::now().saturating_duration_since(pkt_space.largest_rx_pkt_time)",
                );
            if ours != text {
                write(&path, &ours);
            }
        }
    }
}

/// `include!` takes no inner attributes and no `extern crate`: our own `src/lib.rs` has them.
fn strip_crate_header(lib: &Path) {
    let text = read(lib);
    let start = text
        .find("\nuse std::cmp;\n")
        .expect("quiche's lib.rs begins with `use std::cmp`");
    write(lib, &text[start..]);
}
