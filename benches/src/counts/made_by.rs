//! Compiler, profile, C library, valgrind and processor, on which figures depend beside the code.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Returns the facts by name that the figures of `program` depend on beside its code. Figures with other facts are not judged.
#[must_use]
pub fn made_by(program: &Path, valgrind: &OsStr) -> BTreeMap<String, String> {
    let profile = program.parent().and_then(Path::file_name);
    let facts = [
        ("rustc", env!("SLUICEGATE_RUSTC").to_owned()),
        ("profile", profile.unwrap_or_default().display().to_string()),
        ("libc", output(Command::new("getconf").arg("GNU_LIBC_VERSION"))),
        ("valgrind", output(Command::new(valgrind).arg("--version"))),
        ("processor", processor()),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value));
    facts.into_iter().collect()
}

/// Returns the first line of a command's output; nothing if it cannot be run.
fn output(command: &mut Command) -> String {
    let text = command.output().map(|output| output.stdout);
    let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// Returns the kind of processor. Valgrind shows a program on any x86-64 with AVX2 the same one, and another one where that is missing.
fn processor() -> String {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return "x86_64 with AVX2".to_owned();
    }
    std::env::consts::ARCH.to_owned()
}
