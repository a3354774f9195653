//! Redirects of a file, looked up by path.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use sluicegate_base::named_file;
use sluicegate_config::{Error, Redirect, RedirectEntry, read_redirects};

use super::location::Location;
use super::matching::PathMatch;
use super::values::Values;
use crate::exchange::{Reply, RequestHead};
use crate::path::CanonicalPath;

/// Largest file, bytes.
const MAX_FILE: u64 = 16 << 20;

/// Redirects of a file. A lookup takes a hash of the path, and one for each length that prefixes have.
#[derive(Debug, Default)]
pub(super) struct Redirects {
    exact: HashMap<String, Target>,
    prefixes: HashMap<String, Target>,
    /// Lengths of the prefixes, the longest first.
    lengths: Vec<usize>,
}

#[derive(Debug)]
struct Target {
    pattern: PathMatch,
    /// `None` for what is gone.
    location: Option<Location>,
    /// Line in the file.
    line: usize,
}

/// Files that the routes of a site have in common, each read once.
#[derive(Debug, Default)]
pub(super) struct RedirectFiles(HashMap<std::path::PathBuf, Arc<Redirects>>);

impl RedirectFiles {
    /// Returns the redirects of a file.
    ///
    /// # Errors
    /// The file cannot be read, or has a mistake: a line with its place.
    pub(super) fn read(&mut self, file: &Path) -> Result<Arc<Redirects>, String> {
        if let Some(known) = self.0.get(file) {
            return Ok(Arc::clone(known));
        }
        let text = named_file::read_text(file, MAX_FILE)
            .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let redirects = Redirects::parse(file, &text).map_err(|error| error.to_string())?;
        let redirects = Arc::new(redirects);
        self.0.insert(file.to_owned(), Arc::clone(&redirects));
        Ok(redirects)
    }
}

impl Redirects {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Returns the first mistake with its place.
    pub(super) fn parse(file: &Path, text: &str) -> Result<Redirects, Error> {
        let mut redirects = Redirects::default();
        for entry in read_redirects(file, text)? {
            redirects.add(file, entry)?;
        }
        let lengths = redirects.prefixes.keys().map(String::len);
        redirects.lengths = lengths.collect();
        redirects.lengths.sort_unstable_by(|one, other| other.cmp(one));
        redirects.lengths.dedup();
        Ok(redirects)
    }

    fn add(&mut self, file: &Path, entry: RedirectEntry) -> Result<(), Error> {
        let line = entry.position.line;
        let refused = |found: String, expected: &str| Error {
            file: file.display().to_string().into(),
            position: Some(entry.position),
            found,
            expected: expected.to_owned(),
            nearest: None,
            others: None,
        };
        let from = entry.from.escape_debug();
        let path = CanonicalPath::parse(&entry.from)
            .map_err(|error| refused(format!("\"{from}\": {error}"), "a path of requests"))?;
        let path = path.as_str().to_owned();
        let location =
            entry.to.map(|location| Location::new(&Redirect { status: entry.status, location }));
        let (targets, pattern) = if entry.is_prefix {
            (&mut self.prefixes, PathMatch::Prefix(path.clone()))
        } else {
            (&mut self.exact, PathMatch::Exact(path.clone()))
        };
        match targets.insert(path, Target { pattern, location, line }) {
            None => Ok(()),
            Some(first) => {
                let found =
                    format!("\"{from}\" again, first on line {} in another spelling", first.line);
                Err(refused(found, "each path once"))
            }
        }
    }

    /// Returns the response to a request whose path the file has.
    pub(super) fn respond(&self, head: &RequestHead) -> Option<Reply> {
        let path = head.path.as_str();
        let target = self.exact.get(path).or_else(|| {
            let starts = self.lengths.iter().filter_map(|length| path.get(..*length));
            starts.filter_map(|start| self.prefixes.get(start)).next()
        })?;
        match &target.location {
            Some(location) => location.reply(&Values::new(head, &target.pattern)),
            None => Some(Reply::plain(410, "410 gone\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::test_front::head;

    fn location(redirects: &Redirects, path: &str) -> Option<(u16, String)> {
        let reply = redirects.respond(&head("GET", &format!("{path}?q=1"), &[]))?;
        let fields = reply.headers.iter();
        let location = fields.map(|(_, value)| value.to_str().unwrap().to_owned()).next();
        Some((reply.status, location.filter(|_| reply.status != 410).unwrap_or_default()))
    }

    #[test]
    fn an_exact_path_comes_before_prefixes_and_a_longer_prefix_before_a_shorter_one() {
        let text = "/a/b,/exact\n/a/*,/short/{rest}\n/a/long/*,https://b.example/{rest}{query},302\n\
                    /caf%C3%A9/x,/coffee\n/gone,,410\n/to,/at{path}{query}\n";
        let redirects = Redirects::parse(Path::new("r.csv"), text).unwrap();
        for (path, expected) in [
            ("/a/b", Some((308, "/exact"))),
            ("/a//b", Some((308, "/exact"))),
            ("/a/c", Some((308, "/short/c"))),
            ("/a/", Some((308, "/short/"))),
            ("/a/long/x/y", Some((302, "https://b.example/x/y?q=1"))),
            ("/a/long", Some((308, "/short/long"))),
            ("/caf%c3%a9/x", Some((308, "/coffee"))),
            ("/gone", Some((410, ""))),
            ("/to", Some((308, "/at/to?q=1"))),
            ("/a", None),
            ("/", None),
            ("/x", None),
        ] {
            let expected = expected.map(|(status, target)| (status, target.to_owned()));
            assert_eq!(location(&redirects, path), expected, "{path}");
        }
    }

    #[test]
    fn two_spellings_of_a_path_are_one() {
        let parse = |text| Redirects::parse(Path::new("r.csv"), text).unwrap_err().to_string();
        let twice = parse("/a/b,/x\n/a/%62,/y\n");
        assert!(twice.starts_with("r.csv:2:1: \"/a/%62\" again, first on line 1"), "{twice}");
        let invalid = parse("/a/%zz,/x\n");
        assert!(invalid.starts_with("r.csv:1:1: \"/a/%zz\": "), "{invalid}");
    }
}
