//! Chooses the script of a request.
//!
//! Some servers pass the path of a request on to PHP, which looks for a part of it that exists: `/upload.jpg/x.php` would run what a user has
//! uploaded. Here a name with an ending of scripts is the script or there is none, and only a regular file is one.

use rustix::io::Errno;
use sluicegate_config::FastCgi;

use crate::files::disk::{Below, Look};
use crate::files::{FilePath, PathRefusal};
use crate::path::decoded;

/// Longest part of a path behind a script, bytes.
const MAX_PATH_INFO: usize = 4096;

/// Path of a request, below the root of its route.
#[derive(Debug)]
pub(super) enum Asked {
    /// A script, and the part of the path behind it.
    Script(FilePath, Vec<u8>),
    /// A folder, perhaps.
    Other(FilePath),
}

/// Reason to refuse a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathError {
    Malformed,
    TooLong,
}

/// Script below the root of its route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    /// Path of the file, relative to the root.
    pub(super) file: Vec<u8>,
    /// Part of the request's path behind the script, with a slash in front; may be empty.
    pub(super) path_info: Vec<u8>,
}

/// Result of a search for a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Script(Script),
    /// A folder with an index, whose path lacks the slash.
    Folder,
    Nothing,
}

impl Asked {
    /// Reads `rest`, the part of `path` behind a route's prefix; both are percent-encoded. Returns `None` for a path that can name no file,
    /// such as a hidden one. The script is the first name that has one of the endings, and not the ending alone. What is behind it names
    /// no file, so names there may be hidden or long, or have slashes.
    ///
    /// # Errors
    /// The path is malformed, or too long behind the script.
    pub(super) fn of(
        path: &str,
        rest: &str,
        endings: &[String],
    ) -> Result<Option<Asked>, PathError> {
        let end = end_of_script(rest, endings);
        let (named, info) = rest.split_at(end.unwrap_or(rest.len()));
        let path_info: Vec<u8> = decoded(info).collect();
        let is_refused = |name: &[u8]| name == b"." || name == b".." || name.contains(&0);
        if path_info.split(|byte| *byte == b'/').any(is_refused) {
            return Err(PathError::Malformed);
        }
        if path_info.len() > MAX_PATH_INFO {
            return Err(PathError::TooLong);
        }
        let path = path.strip_suffix(info).unwrap_or(path);
        match FilePath::of(path, named) {
            Ok(target) if end.is_some() => Ok(Some(Asked::Script(target, path_info))),
            Ok(target) => Ok(Some(Asked::Other(target))),
            Err(PathRefusal::NotFound) => Ok(None),
            Err(PathRefusal::Malformed) => Err(PathError::Malformed),
        }
    }
}

/// Returns the place behind the first name that has one of the endings, which need no encoding.
fn end_of_script(rest: &str, endings: &[String]) -> Option<usize> {
    let mut end = 0;
    for name in rest.split('/') {
        end += name.len();
        let has = |ending: &String| name.len() > ending.len() && name.ends_with(&**ending);
        if endings.iter().any(has) {
            return Some(end);
        }
        end += 1;
    }
    None
}

/// Returns what stands for the path of a request; `None` for a path that can name no file.
///
/// # Errors
/// Those of the looks.
pub(super) fn find(
    below: &Below,
    settings: &FastCgi,
    asked: Option<&Asked>,
) -> Result<Found, Errno> {
    if let Some(asked) = asked {
        let found = of_path(below, settings, asked)?;
        if found != Found::Nothing {
            return Ok(found);
        }
    }
    let Some(controller) = &settings.front_controller else {
        return Ok(Found::Nothing);
    };
    let file = controller.trim_start_matches('/').as_bytes();
    Ok(match below.look(file)? {
        Look::File => Found::Script(Script::new(file, &[])),
        Look::Folder | Look::Nothing => Found::Nothing,
    })
}

fn of_path(below: &Below, settings: &FastCgi, asked: &Asked) -> Result<Found, Errno> {
    let target = match asked {
        Asked::Script(file, path_info) => {
            return Ok(match below.look(&file.path)? {
                Look::File => Found::Script(Script::new(&file.path, path_info)),
                Look::Folder | Look::Nothing => Found::Nothing,
            });
        }
        Asked::Other(target) => target,
    };
    if below.look(&target.path)? != Look::Folder {
        return Ok(Found::Nothing);
    }
    let mut folder = target.path.to_vec();
    if !folder.is_empty() {
        folder.push(b'/');
    }
    for index in &settings.index {
        let file = [&folder, index.as_bytes()].concat();
        if below.look(&file)? == Look::File {
            return Ok(if target.folder {
                Found::Script(Script::new(&file, &[]))
            } else {
                Found::Folder
            });
        }
    }
    Ok(Found::Nothing)
}

impl Script {
    fn new(file: &[u8], path_info: &[u8]) -> Script {
        Script { file: file.to_vec(), path_info: path_info.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::super::tests::settings;
    use super::*;

    /// Returns what stands for a path below a folder with scripts, as `file info`.
    fn found(keys: &str, path: &str) -> Result<String, Errno> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        for folder in ["admin", "empty", "dir.php/x", "uploads"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in [
            "index.php",
            "admin/index.php",
            "login.php",
            "uploads/cat.jpg",
            "dir.php/x/a.php",
            "b.php7",
            ".php",
            "a b.php",
        ] {
            fs::write(root.join(file), "").unwrap();
        }
        fs::write(folder.path().join("outside.php"), "").unwrap();
        symlink("login.php", root.join("inside.php")).unwrap();
        symlink("../outside.php", root.join("out.php")).unwrap();
        symlink("nowhere.php", root.join("broken.php")).unwrap();
        let _socket = UnixListener::bind(root.join("socket.php")).unwrap();
        let closed = fs::Permissions::from_mode(0o0);
        fs::set_permissions(root.join("login.php"), closed).unwrap();
        let settings = settings(&root, keys);
        let asked = Asked::of(path, path, &settings.split).ok().flatten();
        let below = Below::open(&root, settings.symlinks).unwrap();
        find(&below, &settings, asked.as_ref()).map(|found| match found {
            Found::Script(script) => {
                let text = |bytes| String::from_utf8(bytes).unwrap();
                format!("{} {}", text(script.file), text(script.path_info))
            }
            Found::Folder => "folder".to_owned(),
            Found::Nothing => "nothing".to_owned(),
        })
    }

    #[test]
    fn a_script_is_a_regular_file_with_the_ending() {
        for (path, expected) in [
            ("/index.php", "index.php "),
            ("/", "index.php "),
            ("/admin/", "admin/index.php "),
            ("/admin", "folder"),
            ("/login.php/a/b", "login.php /a/b"),
            ("/login.php/", "login.php /"),
            ("/login.php/x.php", "login.php /x.php"),
            ("/login.php/../../etc", "nothing"),
            ("/login.php/dav/.bashrc", "login.php /dav/.bashrc"),
            ("/login.php/.env/", "login.php /.env/"),
            ("/login.php/a%2Fb%5Cc", "login.php /a/b\\c"),
            ("/login.php/a%00", "nothing"),
            ("/.git/a.php", "nothing"),
            ("/.login.php/a", "nothing"),
            ("/admin%2Findex.php", "nothing"),
            ("/a%20b.php/%C3%A4", "a b.php /ä"),
            ("/inside.php", "inside.php "),
            ("/uploads/cat.jpg", "nothing"),
            ("/uploads/cat.jpg/x.php", "nothing"),
            ("/uploads/cat.jpg%00.php", "nothing"),
            ("/uploads/", "nothing"),
            ("/empty", "nothing"),
            ("/dir.php/x/a.php", "nothing"),
            ("/socket.php", "nothing"),
            ("/broken.php", "nothing"),
            ("/INDEX.PHP", "nothing"),
            ("/b.php7", "nothing"),
            ("/.php", "nothing"),
            ("/none.php", "nothing"),
            ("/none", "nothing"),
        ] {
            assert_eq!(found("", path).as_deref(), Ok(expected), "{path}");
        }
        assert_eq!(found("", "/out.php"), Err(Errno::XDEV));
        assert_eq!(found("symlinks = \"never\"", "/inside.php"), Err(Errno::LOOP));
        let follow = "symlinks = \"follow\"";
        assert_eq!(found(follow, "/out.php").as_deref(), Ok("out.php "));
        let both = "split = [\".php\", \".php7\"]";
        assert_eq!(found(both, "/b.php7/c").as_deref(), Ok("b.php7 /c"));
    }

    #[test]
    fn what_is_behind_a_script_is_only_bounded() {
        let of = |path: &str| {
            let asked = Asked::of(path, path, &[".php".to_owned()])?;
            Ok(match asked {
                Some(Asked::Script(_, path_info)) => path_info.len(),
                Some(Asked::Other(_)) | None => 0,
            })
        };
        for (length, expected) in [
            (300, Ok(300)),
            (MAX_PATH_INFO, Ok(MAX_PATH_INFO)),
            (MAX_PATH_INFO + 1, Err(PathError::TooLong)),
        ] {
            let name = "a".repeat(length - 1);
            assert_eq!(of(&format!("/login.php/{name}")), expected, "{length}");
        }
        for path in ["/a.php/..", "/a.php/x%2F../y", "/a.php/.", "/a.php/%00"] {
            assert_eq!(of(path), Err(PathError::Malformed), "{path}");
        }
    }

    #[test]
    fn a_front_controller_takes_what_has_no_script() {
        let keys = "front_controller = \"/index.php\"";
        for (path, expected) in [
            ("/2026/hello-world/", "index.php "),
            ("/none.php", "index.php "),
            ("/uploads/cat.jpg/x.php", "index.php "),
            ("/.hidden", "index.php "),
            ("/login.php", "login.php "),
            ("/admin", "folder"),
        ] {
            assert_eq!(found(keys, path).as_deref(), Ok(expected), "{path}");
        }
        let missing = "front_controller = \"/none.php\"";
        assert_eq!(found(missing, "/x").as_deref(), Ok("nothing"));
    }
}
