use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use sluicegate_sim::Rng;
use tempfile::TempDir;

use super::*;

/// Makes `root/` with files and links in it, `secret` and `outer/` beside it.
fn tree() -> (TempDir, PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::create_dir(outer.path().join("outer")).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    fs::write(root.join("one"), "one").unwrap();
    fs::write(root.join("a/b/two"), "two").unwrap();
    for (place, target) in [
        ("near", "one".to_owned()),
        ("a/up", "../one".to_owned()),
        ("folder", "a/b".to_owned()),
        ("a/around", "../folder/../up".to_owned()),
        ("out", "../secret".to_owned()),
        ("a/b/out", "../../../secret".to_owned()),
        ("and-back", "../root/one".to_owned()),
        ("far", outer.path().join("secret").display().to_string()),
        ("long", root.join("one").display().to_string()),
        ("loop", "loop".to_owned()),
        ("nowhere", "nothing".to_owned()),
        ("parent", "..".to_owned()),
    ] {
        symlink(target, root.join(place)).unwrap();
    }
    (outer, root)
}

/// Returns the content at a path; `/` for a folder.
fn content(opened: Result<OwnedFd, Errno>) -> Result<String, Errno> {
    let mut file = File::from(opened?);
    if file.metadata().unwrap().is_dir() {
        return Ok("/".to_owned());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    Ok(text)
}

/// Opens the path by the kernel, unless the system forbids that, and name by name, and compares.
fn both(root: &Root, path: &str, links: bool) -> Result<String, Errno> {
    let path = path.as_bytes();
    let walked = content(walk::open(root.folder.as_fd(), path, READ, links));
    match root.ask_kernel(path, links, READ) {
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => {
            let path = String::from_utf8_lossy(path);
            assert_eq!(content(opened), walked, "{path}, links: {links}");
        }
    }
    walked
}

#[test]
fn links_are_followed_as_the_policy_says() {
    let (_outer, path) = tree();
    let root = Root::open(&path, Symlinks::Inside, Wait::Allowed).unwrap();
    let (one, two) = (|| Ok("one".to_owned()), || Ok("two".to_owned()));
    for (path, inside, follow) in [
        ("near", one(), one()),
        ("a/up", one(), one()),
        ("folder/two", two(), two()),
        ("folder", Ok("/".to_owned()), Ok("/".to_owned())),
        ("a/around", one(), one()),
        ("out", Err(Errno::XDEV), Ok("secret".to_owned())),
        ("a/b/out", Err(Errno::XDEV), Ok("secret".to_owned())),
        ("folder/out", Err(Errno::XDEV), Ok("secret".to_owned())),
        ("and-back", Err(Errno::XDEV), one()),
        ("far", Err(Errno::XDEV), Ok("secret".to_owned())),
        ("long", Err(Errno::XDEV), one()),
        ("loop", Err(Errno::LOOP), Err(Errno::LOOP)),
        ("nowhere", Err(Errno::NOENT), Err(Errno::NOENT)),
        ("parent/secret", Err(Errno::XDEV), Ok("secret".to_owned())),
    ] {
        assert_eq!(both(&root, path, false), Err(Errno::LOOP), "{path}");
        assert_eq!(both(&root, path, true), inside, "{path}");
        for (symlinks, expected) in [
            (Symlinks::Never, Err(Errno::LOOP)),
            (Symlinks::Inside, inside),
            (Symlinks::Follow, follow),
        ] {
            let root =
                Root { symlinks, folder: root.folder.try_clone().unwrap(), wait: Wait::Allowed };
            let read = content(root.read(path.as_bytes()));
            assert_eq!(read, expected, "{path}, {symlinks:?}");
            // What is found without waiting is the same.
            let hurried = Root { wait: Wait::Never, ..root };
            let found = content(hurried.read(path.as_bytes()));
            assert!(found.is_err() || found == expected, "{path}, {symlinks:?}");
        }
    }
}

#[test]
fn what_is_no_link_is_found_under_every_policy() {
    let (_outer, path) = tree();
    for symlinks in [Symlinks::Never, Symlinks::Inside, Symlinks::Follow] {
        let root = Root::open(&path, symlinks, Wait::Allowed).unwrap();
        for (path, expected) in [
            ("one", Ok("one".to_owned())),
            ("a/b/two", Ok("two".to_owned())),
            ("a", Ok("/".to_owned())),
            ("two", Err(Errno::NOENT)),
            ("one/two", Err(Errno::NOTDIR)),
            (&"n".repeat(256), Err(Errno::NAMETOOLONG)),
        ] {
            assert_eq!(content(root.read(path.as_bytes())), expected, "{path}");
            assert_eq!(both(&root, path, symlinks != Symlinks::Never), expected);
        }
    }
}

#[test]
fn the_root_itself_may_be_a_link() {
    let (outer, path) = tree();
    let origin_ring = outer.path().join("current");
    symlink(&path, &origin_ring).unwrap();
    let root = Root::open(&origin_ring, Symlinks::Never, Wait::Allowed).unwrap();
    assert!(matches!(root.find(b"one"), Ok(Found::File(..))));
    assert!(Root::open(&path.join("one"), Symlinks::Never, Wait::Allowed).is_err());
}

#[test]
fn only_regular_files_are_files() {
    let (_outer, path) = tree();
    rustix::fs::mknodat(CWD, path.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
    symlink("/dev/zero", path.join("device")).unwrap();
    let root = Root::open(&path, Symlinks::Follow, Wait::Allowed).unwrap();
    assert!(matches!(root.find(b"fifo"), Ok(Found::Other)));
    assert!(matches!(root.find(b"device"), Ok(Found::Other)));
    assert_eq!(root.find(b"socket").unwrap_err(), Errno::NXIO);
    assert_eq!(both(&root, "socket", false), Err(Errno::NXIO));
    assert!(matches!(root.find(b"a"), Ok(Found::Folder)));
}

/// In random trees of folders, files and links, the kernel and the walk agree on each path, and open only files below the root.
#[test]
fn no_tree_leads_out() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    for seed in 1..=60_u64 {
        let mut rng = Rng::new(seed);
        let mut random = |bound: usize| rng.below(bound);
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("a"), "outside").unwrap();
        let path = outer.path().join("root");
        fs::create_dir(&path).unwrap();
        let mut folders = vec![path.clone()];
        for _ in 0..14 {
            let place = folders[random(folders.len())].join(NAMES[random(NAMES.len())]);
            match random(3) {
                0 if fs::create_dir(&place).is_ok() => folders.push(place),
                1 if fs::symlink_metadata(&place).is_err() => fs::write(&place, "inside").unwrap(),
                _ => {
                    let step = |random: &mut dyn FnMut(usize) -> usize| match random(2) {
                        0 => "..",
                        _ => NAMES[random(NAMES.len())],
                    };
                    let steps: Vec<_> = (0..=random(4)).map(|_| step(&mut random)).collect();
                    // A name that is taken stays what it is.
                    let _ = symlink(steps.join("/"), &place);
                }
            }
        }
        let root = Root::open(&path, Symlinks::Inside, Wait::Allowed).unwrap();
        for _ in 0..60 {
            let names: Vec<_> = (0..=random(4)).map(|_| NAMES[random(NAMES.len())]).collect();
            let asked = names.join("/");
            for links in [false, true] {
                let found = both(&root, &asked, links);
                assert_ne!(found, Ok("outside".to_owned()), "seed {seed}, {asked}");
            }
        }
    }
}

#[test]
fn other_file_systems_are_left_to_threads_that_may_wait() {
    let waits = |path: &str, wait| Root::open(Path::new(path), Symlinks::Follow, wait).map(drop);
    assert_eq!(waits("/proc", Wait::Allowed), Ok(()));
    assert!(waits("/proc", Wait::Never).is_err());
    let (_outer, path) = tree();
    symlink("/proc/self/status", path.join("status")).unwrap();
    let root = Root::open(&path, Symlinks::Follow, Wait::Allowed).unwrap();
    assert!(matches!(root.find(b"status"), Ok(Found::File(..))));
    // Where the system may not say what is in memory, or the tree lies on a network, there is no such root.
    if let Ok(root) = Root::open(&path, Symlinks::Follow, Wait::Never) {
        assert!(root.find(b"status").is_err());
    }
}
