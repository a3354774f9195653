//! Files with redirects: a path and its target in each line of CSV, or in each entry of TOML.

use std::collections::HashMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Position};
use crate::source::shown;
use crate::tables::{REDIRECT_STATUS, read_location};
use crate::template::{self, Placeholder, Template};
use crate::value::{kind_of, whole};

/// Most redirects in a file.
pub const MAX_REDIRECTS: usize = 100_000;
const MAX_PATH: usize = 2048;

/// Statuses with a target.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
/// Status of what is gone for good, without a target.
const GONE: u16 = 410;

/// Redirect of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectEntry {
    /// Place in the file.
    pub position: Position,
    /// Path of the requests, as written; for a prefix with the slash at its end.
    pub from: String,
    /// Whether all paths below `from` are meant.
    pub is_prefix: bool,
    /// Target with placeholders; `None` for 410.
    pub to: Option<String>,
    /// Status of the response.
    pub status: u16,
}

/// A file of redirects being read.
struct Reader<'a> {
    file: &'a Path,
    seen: HashMap<String, usize>,
    entries: Vec<RedirectEntry>,
}

/// Reads the text of a file with redirects: TOML if its name ends so, else CSV.
///
/// # Errors
/// Returns the first mistake with its place.
pub fn read_redirects(file: &Path, text: &str) -> Result<Vec<RedirectEntry>, Error> {
    let mut reader = Reader { file, seen: HashMap::new(), entries: Vec::new() };
    let is_toml = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_toml {
        reader.toml(text)?
    } else {
        reader.csv(text)?
    }
    Ok(reader.entries)
}

impl Reader<'_> {
    fn error(&self, at: Position, found: impl Into<String>, expected: &str) -> Error {
        Error {
            file: self.file.display().to_string().into(),
            position: Some(at),
            found: found.into(),
            expected: expected.to_owned(),
            nearest: None,
            others: None,
        }
    }

    fn csv(&mut self, text: &str) -> Result<(), Error> {
        let mut rows = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let mut row = csv::StringRecord::new();
        let place = |at: Option<&csv::Position>| {
            let line = at.map_or(1, |at| line_of_row(text, at));
            Position { line, column: 1 }
        };
        loop {
            match rows.read_record(&mut row) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    return Err(self.error(place(error.position()), error.to_string(), ROW));
                }
            }
            let at = place(row.position());
            let is_header = self.entries.is_empty()
                && row.get(0).is_some_and(|first| first.eq_ignore_ascii_case("from"));
            if is_header || row.iter().all(str::is_empty) {
                continue;
            }
            let (from, to, status) = match row.iter().collect::<Vec<_>>()[..] {
                [from, to] | [from, to, ""] => (from, to, None),
                [from, to, status] => (from, to, Some(status)),
                _ => {
                    let found = format!("{} columns", row.len());
                    return Err(self.error(at, found, ROW));
                }
            };
            let status = status.map(|word| word.parse().ok().ok_or(word)).transpose();
            let status = status
                .map_err(|word| self.error(at, format!("status \"{}\"", shown(word)), STATUSES))?;
            self.add(at, from, to, status)?;
        }
    }

    fn toml(&mut self, text: &str) -> Result<(), Error> {
        let document = DeTable::parse(text).map_err(|error| {
            let at = Position::of(text, error.span().map_or(0, |span| span.start));
            self.error(at, error.message(), ENTRY)
        })?;
        let mut entries: Vec<_> = document.get_ref().iter().collect();
        entries.sort_by_key(|(from, _)| from.span().start);
        let (mut line, mut read) = (1, 0);
        for (from, value) in entries {
            let before = text.get(read..from.span().start).unwrap_or_default();
            line += before.bytes().filter(|byte| *byte == b'\n').count();
            read = from.span().start;
            let at = Position { line, column: 1 };
            let refused = |value: &DeValue<'_>| {
                let found = format!("{} for \"{}\"", kind_of(value), shown(from.get_ref()));
                self.error(at, found, ENTRY)
            };
            let (to, status) = match value.get_ref() {
                DeValue::String(to) => (to.as_ref(), None),
                DeValue::Table(entry) => {
                    let mut keys = entry.keys().map(Spanned::get_ref);
                    if let Some(other) = keys.find(|key| !["to", "status"].contains(&key.as_ref()))
                    {
                        let found = format!("unknown key `{}`", shown(other));
                        return Err(self.error(at, found, ENTRY));
                    }
                    let to = match entry.get("to").map(Spanned::get_ref) {
                        Some(DeValue::String(to)) => to.as_ref(),
                        Some(other) => return Err(refused(other)),
                        None => "",
                    };
                    let status = match entry.get("status").map(Spanned::get_ref) {
                        Some(DeValue::Integer(number)) => {
                            whole(number).and_then(|status| u16::try_from(status).ok()).or(Some(0))
                        }
                        Some(other) => return Err(refused(other)),
                        None => None,
                    };
                    (to, status)
                }
                other => return Err(refused(other)),
            };
            self.add(at, from.get_ref(), to, status)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        position: Position,
        from: &str,
        to: &str,
        status: Option<u16>,
    ) -> Result<(), Error> {
        let status = status.unwrap_or(REDIRECT_STATUS);
        let refused = |found: String, expected: &str| Err(self.error(position, found, expected));
        if self.entries.len() == MAX_REDIRECTS {
            return refused(format!("more than {MAX_REDIRECTS} redirects"), "a smaller file");
        }
        if !REDIRECTS.contains(&status) && status != GONE {
            return refused(format!("status {status}"), STATUSES);
        }
        let (path, is_prefix) = match from.strip_suffix("/*") {
            Some(folder) => (format!("{folder}/"), true),
            None => (from.to_owned(), false),
        };
        if !path.starts_with('/') || path.len() > MAX_PATH || path.contains(['*', '?', '#']) {
            return refused(format!("\"{}\" for the path", shown(from)), FROM);
        }
        let to = match (to, status) {
            ("", GONE) => None,
            (_, GONE) => {
                return refused(format!("the target \"{}\" with status 410", shown(to)), "none");
            }
            _ => Some(self.target(position, to, is_prefix)?),
        };
        if let Some(to) = &to
            && leads_back(&path, is_prefix, to)
        {
            let found = format!("\"{}\" redirects to itself", shown(from));
            return refused(found, "a target that this redirect does not match");
        }
        let line = position.line;
        if let Some(first) = self.seen.insert(from.to_owned(), line) {
            let found = format!("\"{}\" again, first on line {first}", shown(from));
            return Err(self.error(position, found, "each path once"));
        }
        self.entries.push(RedirectEntry { position, from: path, is_prefix, to, status });
        Ok(())
    }

    fn target(&self, at: Position, to: &str, is_prefix: bool) -> Result<String, Error> {
        let found = || format!("\"{}\" for the target", shown(to));
        if to.ends_with("/*") || to.contains(":splat") {
            let expected = "{rest} in place of what follows the prefix";
            return Err(self.error(at, found(), expected));
        }
        let known = if is_prefix { template::IN_REDIRECTS } else { template::IN_EXACT_REDIRECTS };
        read_location(to, "to", known).map_err(|refusal| match refusal.0 {
            Some(reason) => {
                Error { nearest: reason.nearest, ..self.error(at, reason.found, &reason.expected) }
            }
            None => self.error(at, found(), TARGET),
        })
    }
}

/// Returns the line of a row, which may stand behind empty lines and comments.
fn line_of_row(text: &str, at: &csv::Position) -> usize {
    let behind = usize::try_from(at.byte()).ok().and_then(|byte| text.get(byte..));
    let lines = behind.unwrap_or_default().lines();
    let skipped = lines.take_while(|line| line.trim().is_empty() || line.starts_with('#'));
    usize::try_from(at.line()).map_or(1, |line| line + skipped.count())
}

/// Returns whether a redirect matches its own target on the same host.
fn leads_back(path: &str, is_prefix: bool, to: &str) -> bool {
    let template = Template::new(to);
    let first = template.parts().first();
    match first {
        Some(template::Part::Text(text)) => {
            let end = text.find(['?', '#']).unwrap_or(text.len());
            let target = &text[..end];
            let is_whole = end < text.len()
                || !template.parts().iter().skip(1).any(|part| match part {
                    template::Part::Text(text) => !text.starts_with(['?', '#']),
                    template::Part::Value(value) => *value != Placeholder::Query,
                });
            if is_prefix { target.starts_with(path) } else { is_whole && target == path }
        }
        Some(template::Part::Value(value)) => {
            *value == Placeholder::Path && template.parts().len() == 1
        }
        None => false,
    }
}

const ROW: &str = "a path, a target and perhaps a status, as in /old,/new,301";
const ENTRY: &str = "a path and its target, as in \"/old\" = \"/new\" or \"/old\" = { to = \"/new\", status = 301 }";
const STATUSES: &str = "one of: 301, 302, 303, 307, 308; or 410 without a target";
const FROM: &str = "a path such as /old, or one with all below it such as /old/*, of up to 2048 characters, without a query";
const TARGET: &str = "a URL or path of 1 to 2048 characters that may stand in one, with {host}, {path}, {query} and, for a prefix, \
                      {rest} as placeholders";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Vec<RedirectEntry>, String> {
        read_redirects(Path::new(name), text).map_err(|error| error.to_string())
    }

    #[test]
    fn csv_and_toml_say_the_same() {
        let csv = "\u{feff}from,to,status\n# moved in spring\n/old,/new\n\n/a,\"/b,c\", 302\n/docs/*,https://d.example/{rest}{query},301\n/gone,,410\n";
        let toml = "\"/old\" = \"/new\"\n\"/a\" = { to = \"/b,c\", status = 302 }\n\
                    \"/docs/*\" = { to = \"https://d.example/{rest}{query}\", status = 301 }\n\"/gone\" = { status = 410 }\n";
        let of = |name, text| {
            let entries = read(name, text).unwrap().into_iter();
            let plain = |e: RedirectEntry| (e.from, e.is_prefix, e.to, e.status);
            entries.map(plain).collect::<Vec<_>>()
        };
        let rows = of("r.csv", csv);
        assert_eq!(rows, of("r.toml", toml));
        let to = |to: &str| Some(to.to_owned());
        assert_eq!(
            rows,
            [
                ("/old".to_owned(), false, to("/new"), 308),
                ("/a".to_owned(), false, to("/b,c"), 302),
                ("/docs/".to_owned(), true, to("https://d.example/{rest}{query}"), 301),
                ("/gone".to_owned(), false, None, 410),
            ]
        );
        assert_eq!(read("r.csv", csv).unwrap()[1].position.line, 5);
        assert_eq!(read("r.toml", toml).unwrap()[3].position.line, 4);
    }

    #[test]
    fn mistakes_name_file_and_line() {
        for (text, start) in [
            ("/a,/b\n/c\n", "r.csv:2:1: 1 columns; expected a path"),
            ("/a,/b,301,x\n", "r.csv:1:1: 4 columns"),
            ("/a,/b,200\n", "r.csv:1:1: status 200; expected one of: 301"),
            ("/a,/b,moved\n", "r.csv:1:1: status \"moved\""),
            ("\n\n/a,/b\n/a,/c\n", "r.csv:4:1: \"/a\" again, first on line 3"),
            ("a,/b\n", "r.csv:1:1: \"a\" for the path"),
            ("/a?x=1,/b\n", "r.csv:1:1: \"/a?x=1\" for the path"),
            ("/a*,/b\n", "r.csv:1:1: \"/a*\" for the path"),
            ("/a,\n", "r.csv:1:1: \"\" for the target"),
            ("/a,/b c\n", "r.csv:1:1: \"/b c\" for the target"),
            ("/a,/b,410\n", "r.csv:1:1: the target \"/b\" with status 410"),
            ("/a/*,/b/*\n", "r.csv:1:1: \"/b/*\" for the target; expected {rest}"),
            ("/a/*,/b/:splat\n", "r.csv:1:1: \"/b/:splat\" for the target"),
            ("/a,/b/{rest}\n", "r.csv:1:1: placeholder `{rest}` in `to`"),
            ("/a,/b/{capture:1}\n", "r.csv:1:1: placeholder `{capture:1}` in `to`"),
            ("/a,/a\n", "r.csv:1:1: \"/a\" redirects to itself"),
            ("/a,/a{query}\n", "r.csv:1:1: \"/a\" redirects to itself"),
            ("/a,/a?x=1\n", "r.csv:1:1: \"/a\" redirects to itself"),
            ("/a,{path}\n", "r.csv:1:1: \"/a\" redirects to itself"),
            ("/a/*,/a/b\n", "r.csv:1:1: \"/a/*\" redirects to itself"),
        ] {
            let error = read("r.csv", text).unwrap_err();
            assert!(error.starts_with(start), "{text:?}: {error}");
        }
        for (text, start) in [
            ("\"/a\" = 1\n", "r.toml:1:1: integer 1 for \"/a\""),
            ("x = 1\n\"/a\" = \n", "r.toml:2:"),
            ("\"/a\" = { too = \"/b\" }\n", "r.toml:1:1: unknown key `too`"),
            ("\"/a\" = { to = \"/b\", status = 99999999 }\n", "r.toml:1:1: status 0"),
        ] {
            let error = read("r.toml", text).unwrap_err();
            assert!(error.starts_with(start), "{text:?}: {error}");
        }
        assert!(read("r.csv", "/a,/a/\n/b,/b{query}x\n/c/*,/d/{rest}\n").is_ok());
    }

    #[test]
    fn a_file_holds_a_hundred_thousand_redirects_and_no_more() {
        let rows = |count: usize| (0..count).map(|at| format!("/{at},/to\n")).collect::<String>();
        let error = read("r.csv", &rows(MAX_REDIRECTS + 1)).unwrap_err();
        assert!(error.starts_with("r.csv:100001:1: more than 100000 redirects"), "{error}");
    }
}
