//! Names of files in prose, and paths that only one machine has.

use std::path::{Path, PathBuf};

use crate::repository::{has_extension, root};

/// Returns the names in backticks, outside code blocks, that look like files or folders of the repository.
#[must_use]
pub fn paths_in_prose(markdown: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut in_block = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let spans = line.split('`').skip(1).step_by(2);
            paths.extend(spans.filter(|span| is_path(span)).map(str::to_owned));
        }
    }
    paths
}

/// Returns the targets of links to files, outside code blocks: relative ones, without the part behind `#`.
#[must_use]
pub fn links_in_prose(markdown: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut in_block = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let links = line.split("](").skip(1);
            let links = links.filter_map(|rest| rest.split_once(')'));
            let files = links.map(|(target, _)| target.split('#').next().unwrap_or(target));
            let files = files.filter(|target| !target.is_empty() && !target.contains("://"));
            targets.extend(files.map(str::to_owned));
        }
    }
    targets
}

/// Returns the tests that a text names in backticks as `file.rs::name`: file and name.
#[must_use]
pub fn tests_in_prose(markdown: &str) -> Vec<(String, String)> {
    let spans = markdown.split('`').skip(1).step_by(2);
    let tests = spans.filter_map(|span| span.split_once(".rs::"));
    tests.map(|(file, name)| (format!("{file}.rs"), name.to_owned())).collect()
}

fn is_path(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if span.starts_with(['/', '-']) || span.starts_with("target/") || !span.chars().all(plain) {
        return false;
    }
    let name = Path::new(span);
    let source = ["rs", "md"].iter().any(|e| has_extension(name, e));
    let in_folder =
        ["toml", "sh", "service", "patch", "html"].iter().any(|e| has_extension(name, e));
    source
        || span.ends_with('/')
        || span.contains('/') && (in_folder || root().join(first_folder(name)).is_dir())
}

fn first_folder(path: &Path) -> PathBuf {
    path.components().take(1).collect()
}

/// Returns the lines of `text` that name a home folder, or `here`, the folder of the repository.
#[must_use]
pub fn machine_paths(text: &str, here: &str) -> Vec<usize> {
    let homes = [["/home", "/"], ["/Users", "/"], ["/root", "/"]].map(|parts| parts.concat());
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let starts_at = |found: usize| {
            let before = line[..found].chars().next_back();
            before.is_none_or(|c| !c.is_alphanumeric() && !"/.-_)}~".contains(c))
        };
        let mut patterns = homes.iter().map(String::as_str).collect::<Vec<_>>();
        if Path::new(here).components().count() > 2 {
            patterns.push(here);
        }
        if patterns
            .iter()
            .any(|pattern| line.match_indices(pattern).any(|(found, _)| starts_at(found)))
        {
            lines.push(number);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_differ_from_other_code() {
        let text = "Read `cc/src/nowhere.rs`, `cc/nothing`, `gone.md` and `mio/`.\n```sh\ncat `no.rs`\n```\n\
                    Not `text/html`, `/etc/x.toml`, `edge.toml`, `cargo test`, `a::b`, `target/release/x.rs`.";
        let expected = ["cc/src/nowhere.rs", "cc/nothing", "gone.md", "mio/"];
        assert_eq!(paths_in_prose(text), expected);
    }

    #[test]
    fn links_to_files_differ_from_links_to_sites() {
        let text = "See [a](b.md) and [c](../d/e.toml#f), not [g](https://h.org/i) and [j](#k).\n```text\n[l](m.md)\n```";
        assert_eq!(links_in_prose(text), ["b.md", "../d/e.toml"]);
    }

    #[test]
    fn tests_are_recognised_by_file_and_name() {
        let text = "See `a/b.rs::it_works`<br>`c.rs::it_ends`, not `a::b` and `d.rs`.";
        let expected = [("a/b.rs", "it_works"), ("c.rs", "it_ends")];
        let expected = expected.map(|(file, name)| (file.to_owned(), name.to_owned()));
        assert_eq!(tests_in_prose(text), expected);
    }

    #[test]
    fn home_folders_are_recognised() {
        let home = ["/home", "/jo/x"].concat();
        let text = format!("fine\n\"{home}\"\ncd /builds/edge/cc\nhttps://x.org{home}");
        assert_eq!(machine_paths(&text, "/builds/edge"), [2, 3]);
        assert_eq!(machine_paths(&text, "/builds"), [2]);
    }
}
