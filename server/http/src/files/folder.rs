//! The folders of a site, and the numbers under which caches keep their files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_config::{Compress, Files};

use crate::exchange::{Preference, RequestHead};

static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// Folder that a route serves.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Number of these settings, which no others have while the process lives.
    pub id: u64,
    /// Settings of the folder.
    pub files: Arc<Files>,
    /// Compression of the responses; `None` if they are not compressed.
    pub compress: Option<Arc<Compress>>,
    /// Endings of the names of scripts, which another handler of the route runs and which are never sent.
    pub scripts: Arc<[String]>,
}

impl Folder {
    /// Returns the encodings that a client accepts; only the original if there are no others. Requests with the same
    /// preference get the same bytes.
    pub(crate) fn preference(&self, head: &RequestHead) -> Preference {
        if self.files.precompressed || self.compress.is_some() {
            Preference::of(&head.headers)
        } else {
            Preference::ORIGINAL
        }
    }

    /// Returns whether a path names a script, in upper or lower case.
    pub(crate) fn is_script(&self, path: &[u8]) -> bool {
        self.scripts.iter().any(|ending| {
            let start = path.len().checked_sub(ending.len());
            start.is_some_and(|start| path[start..].eq_ignore_ascii_case(ending.as_bytes()))
        })
    }

    /// Returns the encodings of files on the disk that a client accepts.
    pub(crate) fn variants(&self, head: &RequestHead) -> Preference {
        if self.files.precompressed { Preference::of(&head.headers) } else { Preference::ORIGINAL }
    }
}

/// The folders of a site, each once.
#[derive(Debug, Default)]
pub struct SiteFolders(Vec<Folder>);

impl SiteFolders {
    /// Returns whether a folder has the number.
    pub(super) fn has(&self, id: u64) -> bool {
        self.0.iter().any(|folder| folder.id == id)
    }

    pub(crate) fn covers(&self, other: &SiteFolders) -> bool {
        other.0.iter().all(|folder| self.has(folder.id))
    }

    fn get(
        &self,
        files: &Files,
        compress: Option<&Arc<Compress>>,
        scripts: &[String],
    ) -> Option<&Folder> {
        self.0.iter().find(|folder| {
            *folder.files == *files
                && folder.compress.as_ref() == compress
                && *folder.scripts == *scripts
        })
    }
}

/// Collects the folders of a site while its routes are compiled.
#[derive(Debug)]
pub struct FolderCompiler<'a> {
    previous: &'a SiteFolders,
    folders: SiteFolders,
}

impl<'a> FolderCompiler<'a> {
    /// Starts without a folder. Folders that `previous` has with the same settings keep their numbers, and therefore their cached
    /// files.
    pub fn new(previous: &'a SiteFolders) -> FolderCompiler<'a> {
        FolderCompiler { previous, folders: SiteFolders::default() }
    }

    /// Compiles the folder of a route, in which names with the endings `scripts` are scripts; routes with the same settings share one.
    pub fn compile(
        &mut self,
        files: &Files,
        compress: Option<&Arc<Compress>>,
        scripts: &[String],
    ) -> Folder {
        if let Some(folder) = self.folders.get(files, compress, scripts) {
            return folder.clone();
        }
        let known = self.previous.get(files, compress, scripts).cloned();
        let folder = known.unwrap_or_else(|| Folder {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed),
            files: Arc::new(files.clone()),
            compress: compress.cloned(),
            scripts: scripts.into(),
        });
        self.folders.0.push(folder.clone());
        folder
    }

    /// Returns all folders that were compiled.
    pub fn finish(self) -> SiteFolders {
        self.folders
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::files;
    use super::*;

    fn compile(previous: &SiteFolders, all: &[&Files]) -> (SiteFolders, Vec<u64>) {
        let mut compiler = FolderCompiler::new(previous);
        let ids = all.iter().map(|files| compiler.compile(files, None, &[]).id);
        let ids = ids.collect();
        (compiler.finish(), ids)
    }

    #[test]
    fn a_folder_has_its_number_as_long_as_its_settings() {
        let (one, other) = (files(true), files(false));
        let (first, ids) = compile(&SiteFolders::default(), &[&one, &other, &one]);
        assert!(ids[0] == ids[2] && ids[0] != ids[1]);
        let (second, kept) = compile(&first, &[&other, &one]);
        assert_eq!(kept, [ids[1], ids[0]]);
        assert!(second.covers(&first));
        // A folder that comes back after it was removed is another one.
        let (without, _) = compile(&second, &[&other]);
        assert!(without.has(ids[1]) && !without.has(ids[0]));
        assert!(second.covers(&without) && !without.covers(&second));
        let (_, back) = compile(&without, &[&one]);
        assert!(!ids.contains(&back[0]));
    }

    #[test]
    fn a_folder_that_is_compressed_is_another_one() {
        let settings = Arc::new(sluicegate_config::Config::embedded().compress);
        let (files, previous) = (files(true), SiteFolders::default());
        let mut compiler = FolderCompiler::new(&previous);
        let plain = compiler.compile(&files, None, &[]);
        let compressed = compiler.compile(&files, Some(&settings), &[]);
        assert_ne!(plain.id, compressed.id);
        assert_eq!(compiler.compile(&files, Some(&settings), &[]).id, compressed.id);
    }

    #[test]
    fn a_folder_beside_scripts_shares_no_cached_file_with_one_that_sends_them() {
        let (files, previous) = (files(true), SiteFolders::default());
        let mut compiler = FolderCompiler::new(&previous);
        let plain = compiler.compile(&files, None, &[]);
        let beside = compiler.compile(&files, None, &[".php".to_owned()]);
        assert_ne!(plain.id, beside.id);
        for (path, is_script) in [
            ("a/index.php", true),
            ("INDEX.PhP", true),
            (".php", true),
            ("index.php.txt", false),
            ("php", false),
            ("", false),
        ] {
            assert_eq!(beside.is_script(path.as_bytes()), is_script, "{path}");
            assert!(!plain.is_script(path.as_bytes()));
        }
    }
}
