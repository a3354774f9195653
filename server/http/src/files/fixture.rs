//! A folder's configuration for tests.

use sluicegate_config::{Files, Symlinks};

/// Returns a folder that does not exist.
pub(super) fn files(precompressed: bool) -> Files {
    Files {
        root: "/nowhere".into(),
        index: Vec::new(),
        precompressed,
        symlinks: Symlinks::Never,
        candidates: vec!["{path}".to_owned()],
        mime_types: Vec::new(),
    }
}
