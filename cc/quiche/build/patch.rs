//! Applies the patches, and refuses to where anything about them is not as they say.

use std::fs;
use std::path::{Path, PathBuf};

use super::source;

/// Names of the series, in the order in which they are applied.
pub const SERIES: [&str; 12] = [
    "socket",
    "fixes",
    "http3",
    "traces",
    "peers",
    "tokens",
    "ecn",
    "memory",
    "speed",
    "priorities",
    "running",
    "idle",
];

/// Unchanged lines that a hunk shows before and after its change, unless the file begins or ends there.
const CONTEXT: usize = 3;

/// A patch as it lies in its file.
#[derive(Debug)]
pub struct Patch {
    /// Path of the file, for messages.
    name: String,
    text: String,
}

/// A change of one place.
#[derive(Debug, Default)]
struct Hunk {
    /// Line of the patch file that it begins at, counted from 1.
    at: usize,
    /// Index of its first line in the old text, and the number of its lines there.
    old: (usize, usize),
    /// The same in the new text.
    new: (usize, usize),
    lines: Vec<(Kind, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Context,
    Removed,
    Added,
}

/// Returns the patches of all series in the order of their application.
///
/// # Errors
/// A folder cannot be read, a name is not `NN-name.patch`, or a number is missing.
pub fn series(folder: &Path) -> Result<Vec<Patch>, String> {
    let mut entries: Vec<String> = names(folder)?;
    entries.retain(|name| !SERIES.contains(&name.as_str()));
    if let Some(name) = entries.first() {
        let name = folder.join(name);
        return Err(format!("{}: not a series of patches", name.display()));
    }
    let mut patches = Vec::new();
    for series in SERIES {
        let folder = folder.join(series);
        for (at, name) in names(&folder)?.into_iter().enumerate() {
            let path = folder.join(&name);
            let number = format!("{:02}-", at + 1);
            if !name.starts_with(&number) || !name.ends_with(".patch") {
                let path = path.display();
                return Err(format!("{path}: expected the name `{number}….patch`"));
            }
            patches.push(Patch::new(path.display().to_string(), source::read(&path)?));
        }
    }
    Ok(patches)
}

fn names(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

impl Patch {
    /// Makes a patch of its text; `name` is for messages.
    pub fn new(name: String, text: String) -> Patch {
        Patch { name, text }
    }

    /// Changes the files below `root`.
    ///
    /// # Errors
    /// The patch is malformed, or a file differs from what a hunk shows. The message names patch, file and line.
    pub fn apply(&self, root: &Path) -> Result<(), String> {
        for (file, hunks) in self.parse()? {
            let path = root.join(&file);
            let old = source::read(&path)?;
            let new = self.changed(&file, &old, &hunks)?;
            source::write(&path, &new)?;
        }
        Ok(())
    }

    fn fault<T>(&self, line: usize, what: &str) -> Result<T, String> {
        Err(format!("{}:{line}: {what}", self.name))
    }

    /// Returns the number of lines before the first change: the header and the message of a commit, as `git am` takes them.
    fn message_lines(&self) -> usize {
        let is_change = |line: &str| line.starts_with("--- a/src/") || line.starts_with("@@ ");
        self.text.lines().take_while(|line| !is_change(line)).count()
    }

    /// Returns the files that the patch changes, with their hunks.
    fn parse(&self) -> Result<Vec<(PathBuf, Vec<Hunk>)>, String> {
        let mut files: Vec<(PathBuf, Vec<Hunk>)> = Vec::new();
        // Lines of the old and of the new text that the present hunk still has.
        let (mut old, mut new) = (0, 0);
        let message = self.message_lines();
        for (at, line) in self.text.lines().enumerate().skip(message) {
            let at = at + 1;
            if old + new == 0 {
                if let Some(name) = line.strip_prefix("+++ b/src/") {
                    files.push((PathBuf::from(name), Vec::new()));
                } else if line.starts_with("@@ ") {
                    let Some((_, hunks)) = files.last_mut() else {
                        return self.fault(at, "a hunk without a file");
                    };
                    let Some(hunk) = Hunk::parse(line, at) else {
                        return self.fault(at, "a hunk's head that cannot be read");
                    };
                    (old, new) = (hunk.old.1, hunk.new.1);
                    hunks.push(hunk);
                } else if !line.starts_with("--- a/src/") {
                    return self.fault(at, "more lines than the hunk's head says");
                }
                continue;
            }
            let kind = match line.as_bytes().first() {
                None | Some(b' ') => Kind::Context,
                Some(b'-') => Kind::Removed,
                Some(b'+') => Kind::Added,
                Some(_) => return self.fault(at, "fewer lines than the hunk's head says"),
            };
            let (left_old, left_new) = (
                old.checked_sub(usize::from(kind != Kind::Added)),
                new.checked_sub(usize::from(kind != Kind::Removed)),
            );
            let (Some(left_old), Some(left_new), Some((_, hunks))) =
                (left_old, left_new, files.last_mut())
            else {
                return self.fault(at, "more lines than the hunk's head says");
            };
            (old, new) = (left_old, left_new);
            if let Some(hunk) = hunks.last_mut() {
                let text = line.get(1..).unwrap_or_default();
                hunk.lines.push((kind, text.to_owned()));
            }
        }
        if old + new > 0 {
            return self.fault(self.text.lines().count(), "the hunk is cut off");
        }
        if files.is_empty() {
            return self.fault(message, "no change after the message");
        }
        Ok(files)
    }

    /// Returns the changed text of a file.
    fn changed(&self, file: &Path, old: &str, hunks: &[Hunk]) -> Result<String, String> {
        let old: Vec<&str> = old.lines().collect();
        let mut new: Vec<&str> = Vec::new();
        let mut at = 0;
        for hunk in hunks {
            if hunk.old.0 < at || hunk.old.0 > old.len() {
                return self.fault(hunk.at, "the hunk begins within another, or behind the file");
            }
            new.extend(&old[at..hunk.old.0]);
            at = hunk.old.0;
            if new.len() != hunk.new.0 {
                return self.fault(hunk.at, "the new line does not follow from the old one");
            }
            hunk.check_context(old.len()).or_else(|what| self.fault(hunk.at, what))?;
            for (offset, (kind, line)) in hunk.lines.iter().enumerate() {
                if *kind != Kind::Added {
                    let found = old.get(at).copied();
                    if found != Some(line) {
                        let file = file.display();
                        let found = found.unwrap_or("the end of the file");
                        let what =
                            format!("src/{file}:{}: found `{found}`, expected `{line}`", at + 1);
                        return self.fault(hunk.at + 1 + offset, &what);
                    }
                    at += 1;
                }
                if *kind != Kind::Removed {
                    new.push(line);
                }
            }
        }
        new.extend(&old[at..]);
        Ok(new.join("\n") + "\n")
    }
}

impl Hunk {
    /// Reads `@@ -l[,n] +l[,n] @@`; what follows is for people.
    fn parse(line: &str, at: usize) -> Option<Hunk> {
        let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
        let (old, new) = ranges.split_once(" +")?;
        let range = |text: &str| {
            let (line, count) = text.split_once(',').unwrap_or((text, "1"));
            let first: usize = line.parse().ok()?;
            Some((first.checked_sub(1)?, count.parse().ok()?))
        };
        Some(Hunk { at, old: range(old)?, new: range(new)?, lines: Vec::new() })
    }

    /// Refuses a hunk without its neighbours, in a file of `len` lines: it could be applied in a wrong place.
    fn check_context(&self, len: usize) -> Result<(), &'static str> {
        let is_context = |(kind, _): &&(Kind, String)| *kind == Kind::Context;
        let before = self.lines.iter().take_while(is_context).count();
        let after = self.lines.iter().rev().take_while(is_context).count();
        let (first, end) = (self.old.0, self.old.0 + self.old.1);
        if before < CONTEXT.min(first + before)
            || after < CONTEXT.min(len.saturating_sub(end) + after)
        {
            return Err("fewer than three unchanged lines before or after the change");
        }
        Ok(())
    }
}
