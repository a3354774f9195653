//! Files of the kernel below a root, which tests move.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Most bytes that are read of a file: the interrupts of hundreds of cores take a megabyte.
const MAX_BYTES: u64 = 8 << 20;
/// Most entries of a folder.
const MAX_ENTRIES: usize = 8192;

/// `/proc`, `/sys` and a few other files of a host.
#[derive(Clone, Debug)]
pub(crate) struct HostFiles {
    root: PathBuf,
}

/// Cause for which a file has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoValue {
    /// There is no such file.
    Missing(String),
    /// The file cannot be read.
    Unreadable(String, String),
    /// The file holds something else.
    Nonsense(String, String),
}

impl NoValue {
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

impl Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "this host has no /{path}"),
            Self::Unreadable(path, cause) => {
                write!(f, "/{path} cannot be read ({cause}): run doctor as root")
            }
            Self::Nonsense(path, text) => {
                write!(f, "/{path} holds `{text}`, which doctor does not understand")
            }
        }
    }
}

impl HostFiles {
    /// Returns the files below `root`, which is `/` but in tests.
    pub(crate) fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the path of a file, to be used as it is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Returns the text of a file.
    pub(crate) fn text(&self, name: &str) -> Result<String, NoValue> {
        let mut bytes = Vec::new();
        let read =
            File::open(self.path(name)).and_then(|f| f.take(MAX_BYTES).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(NoValue::Missing(name.to_owned()))
            }
            Err(error) => Err(NoValue::Unreadable(name.to_owned(), error.to_string())),
        }
    }

    /// Returns the value that is a whole file.
    pub(super) fn value<T: FromStr>(&self, name: &str) -> Result<T, NoValue> {
        let text = self.text(name)?;
        text.trim().parse().map_err(|_| nonsense(name, &text))
    }

    /// Returns the cores in a list such as `0-3,6`.
    pub(super) fn cores(&self, name: &str) -> Result<Vec<usize>, NoValue> {
        let text = self.text(name)?;
        core_list(&text).ok_or_else(|| nonsense(name, &text))
    }

    /// Returns the cores that the kernel uses; none if it does not tell.
    pub(super) fn online_cores(&self) -> Vec<usize> {
        self.cores("sys/devices/system/cpu/online").unwrap_or_default()
    }

    /// Returns the value of a key in the status of this process.
    pub(super) fn own_status(&self, key: &str) -> Option<String> {
        let status = self.text("proc/self/status").ok()?;
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(name, _)| *name == key)?;
        Some(value.trim().to_owned())
    }

    /// Returns the names in a folder, in order; none if it is not there.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().take(MAX_ENTRIES);
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Returns the numbers of the processes of a program.
    pub(super) fn processes(&self, program: &str) -> Vec<String> {
        let mut numbers = self.names("proc");
        numbers.retain(|number| {
            number.bytes().all(|byte| byte.is_ascii_digit())
                && self
                    .text(&format!("proc/{number}/comm"))
                    .is_ok_and(|name| name.trim() == program)
        });
        numbers
    }

    /// Returns the last part of the path that a link leads to.
    pub(super) fn link_name(&self, name: &str) -> Option<String> {
        let link = fs::read_link(self.path(name)).ok()?;
        Some(link.file_name()?.to_string_lossy().into_owned())
    }

    /// Returns whether the process runs in a container, by the marks that Docker, Podman and Kubernetes leave.
    pub(super) fn is_container(&self) -> bool {
        let environment = || self.text("proc/1/environ").unwrap_or_default();
        self.exists(".dockerenv")
            || self.exists("run/.containerenv")
            || environment().split('\0').any(|variable| variable.starts_with("container="))
            || environment().split('\0').any(|v| v.starts_with("KUBERNETES_SERVICE_HOST="))
    }

    /// Returns whose limits those of this process are.
    pub(super) fn owner(&self) -> &'static str {
        if self.is_container() {
            "the container"
        } else {
            "the shell that runs doctor; the service may have another"
        }
    }
}

/// Returns the error for a text, which is cut to a length that fits in a line.
pub(super) fn nonsense(name: &str, text: &str) -> NoValue {
    let shown: String = text.trim().chars().take(40).collect();
    NoValue::Nonsense(name.to_owned(), shown.replace(char::is_control, "\u{fffd}"))
}

/// Reads a list of cores such as `0-3,6`.
fn core_list(text: &str) -> Option<Vec<usize>> {
    /// More cores than Linux supports.
    const MAX: usize = 1 << 16;
    let mut cores = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MAX || first > last || cores.len() > MAX {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

/// Returns each of the cores once, in order.
pub(super) fn distinct(cores: impl Iterator<Item = usize>) -> Vec<usize> {
    cores.collect::<BTreeSet<usize>>().into_iter().collect()
}

/// Returns cores as a list such as `0-3,6`.
pub(super) fn ranges(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for core in distinct(cores.iter().copied()) {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    let parts =
        parts.iter().map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        );
    parts.collect::<Vec<_>>().join(",")
}

/// Returns cores in words, such as `cores 0-3,6`.
pub(super) fn named(cores: &[usize]) -> String {
    let list = ranges(cores);
    if list.contains([',', '-']) { format!("cores {list}") } else { format!("core {list}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::scratch::Scratch;

    #[test]
    fn lists_of_cores_are_read_and_written() {
        for (text, cores) in
            [("0-3,6\n", &[0, 1, 2, 3, 6][..]), ("", &[]), ("\n", &[]), ("5", &[5])]
        {
            assert_eq!(core_list(text).as_deref(), Some(cores), "{text}");
            assert_eq!(ranges(cores), text.trim());
        }
        for text in ["x", "3-1", "1-", "-1", "0-99999999999", "99999999999999999999999"] {
            assert_eq!(core_list(text), None, "{text}");
        }
        assert_eq!(ranges(&[3, 1, 2, 2]), "1-3");
        assert_eq!((named(&[3, 3]), named(&[0, 3])), ("core 3".to_owned(), "cores 0,3".to_owned()));
    }

    #[test]
    fn files_without_a_value_say_why() {
        let host = Scratch::new();
        host.write("proc/number", "18446744073709551616\u{1b}[2J\n");
        fs::create_dir_all(host.path("proc/folder")).unwrap();
        let files = host.files();
        let said = |name| files.value::<u64>(name).unwrap_err().to_string();
        assert_eq!(said("proc/none"), "this host has no /proc/none");
        assert!(said("proc/number").contains("holds `18446744073709551616\u{fffd}[2J`"));
        assert!(said("proc/folder").contains("cannot be read"), "{}", said("proc/folder"));
        host.write("proc/number", "18446744073709551615");
        assert_eq!(files.value("proc/number"), Ok(u64::MAX));
    }

    #[test]
    fn containers_are_known_by_their_marks() {
        let host = Scratch::new();
        assert!(!host.files().is_container());
        host.write("proc/1/environ", "HOME=/\0container=podman\0");
        assert!(host.files().is_container());
        host.write("proc/1/environ", "A=container=x\0");
        assert!(!host.files().is_container());
        host.write(".dockerenv", "");
        assert!(host.files().is_container());
    }
}
