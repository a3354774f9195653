//! Chooses the script of a request.
//!
//! Some servers pass the path of a request on to PHP, which looks for a part of it that exists: `/upload.jpg/x.php` would run what a user has
//! uploaded. Here a name with an ending of scripts is the script or there is none, and only a regular file is one.

use rustix::io::Errno;
use sluicegate_config::FastCgi;

use crate::http::files::Target;
use crate::http::files::disk::{Below, Look};

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

/// Returns what stands for the path of a request; without a target the path can name no file.
///
/// # Errors
/// Those of the looks.
pub(super) fn find(
    below: &Below,
    settings: &FastCgi,
    target: Option<&Target>,
) -> Result<Found, Errno> {
    if let Some(target) = target {
        let found = of_target(below, settings, target)?;
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

fn of_target(below: &Below, settings: &FastCgi, target: &Target) -> Result<Found, Errno> {
    if let Some((file, rest)) = split(target, &settings.split) {
        let mut script = Script::new(file, rest);
        if target.folder {
            script.path_info.push(b'/');
        }
        return Ok(match below.look(file)? {
            Look::File => Found::Script(script),
            Look::Folder | Look::Nothing => Found::Nothing,
        });
    }
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

/// Splits a path behind the first name that has one of the endings, and not the ending alone.
fn split<'a>(target: &'a Target, endings: &[String]) -> Option<(&'a [u8], &'a [u8])> {
    let mut end = 0;
    for name in target.path.split(|byte| *byte == b'/') {
        end += name.len();
        let has = |ending: &String| name.len() > ending.len() && name.ends_with(ending.as_bytes());
        if endings.iter().any(has) {
            return Some(target.path.split_at(end));
        }
        end += 1;
    }
    None
}

impl Script {
    fn new(file: &[u8], path_info: &[u8]) -> Script {
        Script {
            file: file.to_vec(),
            path_info: path_info.to_vec(),
        }
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
        let target = Target::of(path, path).ok();
        let below = Below::open(&root, settings.symlinks).unwrap();
        find(&below, &settings, target.as_ref()).map(|found| match found {
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
        assert_eq!(
            found("symlinks = \"never\"", "/inside.php"),
            Err(Errno::LOOP)
        );
        let follow = "symlinks = \"follow\"";
        assert_eq!(found(follow, "/out.php").as_deref(), Ok("out.php "));
        let both = "split = [\".php\", \".php7\"]";
        assert_eq!(found(both, "/b.php7/c").as_deref(), Ok("b.php7 /c"));
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
