//! One style of module files: `foo.rs` beside its folder `foo/`.

use std::path::Path;

/// Returns whether a module with children has the older form `foo/mod.rs`.
///
/// A module that integration tests share keeps it: `tests/foo.rs` would be a test of its own.
#[must_use]
pub fn has_old_form(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().rev().collect();
    let shared_by_tests =
        parts.get(2).is_some_and(|part| *part == "tests") && !parts.contains(&"src".as_ref());
    file.file_name().is_some_and(|name| name == "mod.rs") && !shared_by_tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_files_stand_beside_their_folder() {
        assert!(has_old_form(Path::new("cc/src/bbr3/mod.rs")));
        assert!(has_old_form(Path::new("cc/src/x/tests/wire/mod.rs")));
        assert!(!has_old_form(Path::new("cc/src/bbr3.rs")));
        assert!(!has_old_form(Path::new("cc/tests/lab/mod.rs")));
        assert!(has_old_form(Path::new("cc/tests/e2e/http3/mod.rs")));
    }
}
