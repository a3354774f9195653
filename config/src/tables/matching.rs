//! Conditions of routes: patterns of paths, of fields and of query parameters.

use std::fmt;

use regex::{Regex, RegexBuilder};

use crate::schema::{Reason, Refusal};
use crate::source::shown;
use crate::value::Word;
use crate::words::token;

/// Largest pattern of a path, bytes.
const MAX_PATH: usize = 1024;
/// Largest pattern of a field or a parameter, bytes.
const MAX_CONDITION: usize = 4096;
const MAX_NAME: usize = 128;
/// Largest regular expression once it is compiled, bytes.
const MAX_COMPILED: usize = 1 << 20;

/// Compiles a regular expression of a file. It matches in time linear in the text.
///
/// # Errors
/// The syntax is wrong, or the compiled expression would take more than 1 MiB.
pub fn compile_regex(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).build()
}

/// Pattern of request paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathPattern {
    /// This path alone.
    Exact(String),
    /// This path and all paths below it.
    Prefix(String),
    /// Every path in which the regular expression matches.
    Regex(String),
}

impl fmt::Display for PathPattern {
    /// Writes the pattern as a file does: `= /favicon.ico`, `/api`, `~ \.php$`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(path) => write!(f, "= {path}"),
            Self::Prefix(path) => f.write_str(path),
            Self::Regex(pattern) => write!(f, "~ {pattern}"),
        }
    }
}

impl From<&str> for PathPattern {
    /// Returns the pattern that a file writes in this way, without a check of it.
    fn from(word: &str) -> Self {
        if let Some(path) = word.strip_prefix('=') {
            Self::Exact(path.trim_ascii_start().to_owned())
        } else if let Some(pattern) = word.strip_prefix('~') {
            Self::Regex(pattern.trim_ascii_start().to_owned())
        } else {
            Self::Prefix(word.to_owned())
        }
    }
}

impl Word for PathPattern {
    fn of_canonical(word: String) -> Option<Self> {
        Some(Self::from(word.as_str()))
    }
}

/// Condition on a request's fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldMatch(pub NamedMatch);

/// Condition on the parameters of a request's query.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryMatch(pub NamedMatch);

/// A name, and what the value beside it must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamedMatch {
    /// Name of the field, in lower case and with `-` in place of `_`, or of the parameter.
    pub name: String,
    /// The values that match.
    pub value: ValueMatch,
}

/// The values that a condition matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ValueMatch {
    /// Every value.
    Any,
    /// This value alone.
    Is(String),
    /// Every value in which the regular expression matches.
    Regex(String),
}

impl NamedMatch {
    fn read(word: &str, separator: char) -> Self {
        let Some((name, value)) = word.split_once(separator) else {
            return Self { name: word.to_owned(), value: ValueMatch::Any };
        };
        let value = value.trim_ascii_start();
        Self {
            name: name.to_owned(),
            value: match value.strip_prefix('~') {
                Some(pattern) => ValueMatch::Regex(pattern.trim_ascii_start().to_owned()),
                None => ValueMatch::Is(value.to_owned()),
            },
        }
    }

    /// Writes the condition as a file does, with `separator` in front of the value.
    fn write(&self, f: &mut fmt::Formatter<'_>, separator: &str) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.value {
            ValueMatch::Any => Ok(()),
            ValueMatch::Is(value) if value.is_empty() => f.write_str(separator.trim_end()),
            ValueMatch::Is(value) => write!(f, "{separator}{value}"),
            ValueMatch::Regex(pattern) => write!(f, "{separator}~ {pattern}"),
        }
    }
}

impl fmt::Display for FieldMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, ": ")
    }
}

impl fmt::Display for QueryMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, "=")
    }
}

impl Word for FieldMatch {
    fn of_canonical(word: String) -> Option<Self> {
        Some(Self(NamedMatch::read(&word, ':')))
    }
}

impl Word for QueryMatch {
    fn of_canonical(word: String) -> Option<Self> {
        Some(Self(NamedMatch::read(&word, '=')))
    }
}

crate::field::words_in_fields!(PathPattern, FieldMatch, QueryMatch);

/// Reads a pattern of paths.
pub(super) fn path_pattern(word: &str) -> Result<String, Refusal> {
    let advice = |advice: String| {
        Refusal::because(Reason {
            found: format!("\"{}\" for `path`", shown(word)),
            expected: advice,
            nearest: None,
        })
    };
    if word.len() > MAX_PATH || !word.bytes().all(|b| b.is_ascii_graphic() || b == b' ') {
        return Err(Refusal::default());
    }
    // nginx's modifiers that do not exist here.
    if let Some(pattern) = word.strip_prefix("~*") {
        let pattern = pattern.trim_ascii_start();
        return Err(advice(format!("`~ (?i){pattern}`, which ignores case")));
    }
    if word.starts_with("^~") {
        return Err(advice(
            "a prefix alone, and no regular expression that matches below it".to_owned(),
        ));
    }
    let pattern = PathPattern::from(word);
    match &pattern {
        PathPattern::Regex(regex) => {
            check_regex(regex, "path")?;
        }
        PathPattern::Exact(path) | PathPattern::Prefix(path) => {
            let plain = |b: u8| b.is_ascii_graphic() && b != b'?' && b != b'#';
            if !(path.starts_with('/') && path.bytes().all(plain)) {
                return Err(Refusal::default());
            }
        }
    }
    Ok(pattern.to_string())
}

/// Reads a condition on fields: `name`, `name: value` or `name: ~ regex`.
pub(super) fn field_match(word: &str) -> Result<String, Refusal> {
    let mut condition = NamedMatch::read(word, ':');
    if !token(&condition.name, MAX_NAME) {
        return Err(Refusal::default());
    }
    // One name for all that match, so that two conditions on the same fields are found to be the same.
    condition.name = condition.name.to_ascii_lowercase().replace('_', "-");
    if condition.name == "host" {
        return Err(Refusal::because(Reason {
            found: "`host` in `match_headers`".to_owned(),
            expected: "`host` of the route, which holds for every version of HTTP".to_owned(),
            nearest: None,
        }));
    }
    check_value(&condition, word, "match_headers")?;
    Ok(FieldMatch(condition).to_string())
}

/// Reads a condition on parameters: `name`, `name=value` or `name=~ regex`.
pub(super) fn query_match(word: &str) -> Result<String, Refusal> {
    let condition = NamedMatch::read(word, '=');
    let fits = (1..=MAX_NAME).contains(&condition.name.len());
    if !fits || condition.name.contains('&') {
        return Err(Refusal::default());
    }
    check_value(&condition, word, "match_query")?;
    Ok(QueryMatch(condition).to_string())
}

fn check_value(condition: &NamedMatch, word: &str, key: &str) -> Result<(), Refusal> {
    let plain = |b: u8| b.is_ascii_graphic() || b == b' ';
    if word.len() > MAX_CONDITION || !word.bytes().all(plain) || word.trim_ascii() != word {
        return Err(Refusal::default());
    }
    match &condition.value {
        ValueMatch::Regex(pattern) => check_regex(pattern, key),
        ValueMatch::Any | ValueMatch::Is(_) => Ok(()),
    }
}

fn check_regex(pattern: &str, key: &str) -> Result<(), Refusal> {
    if pattern.is_empty() {
        return Err(Refusal::default());
    }
    compile_regex(pattern).map(drop).map_err(|error| {
        let error = error.to_string();
        // The last line has the cause; those before draw the place in the pattern.
        let cause = error.lines().last().unwrap_or_default();
        let cause = cause.trim_start_matches("error: ");
        Refusal::because(Reason {
            found: format!("regular expression `{}` for `{key}`: {cause}", shown(pattern)),
            expected: "a regular expression as of Rust's crate regex, of up to 1 MiB compiled"
                .to_owned(),
            nearest: None,
        })
    })
}
