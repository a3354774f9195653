//! One style of module files: `foo.rs` beside its folder `foo/`.

use std::path::Path;

/// Returns whether a module with children has the older form `foo/mod.rs`.
#[must_use]
pub fn has_old_form(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "mod.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_files_stand_beside_their_folder() {
        assert!(has_old_form(Path::new("cc/src/bbr3/mod.rs")));
        assert!(!has_old_form(Path::new("cc/src/bbr3.rs")));
        assert!(has_old_form(Path::new("cc/tests/lab/mod.rs")));
    }
}
