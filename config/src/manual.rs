//! The operator's manual: an example file that explains every key.

use sluicegate_cc::{Algorithm, Registry};

use crate::model::CongestionControl;
use crate::parse::expectation;
use crate::print::{congestion_control, option};
use crate::schema::{FILES, GENERATE, Given, Key, LISTENER, PROXY, REDIRECT, RULE, TABLES, Table};

/// Columns of a line of prose.
const WIDTH: usize = 100;

/// Before what need not be in a file.
const EXAMPLE: &str = "# e.g. ";

/// Handlers that need a route of their own, as the one before has another, with its path.
const ROUTES: [(&str, &str); 4] = [
    (GENERATE.name, "/bytes/"),
    (FILES.name, "/static/"),
    (PROXY.name, "/app/"),
    (REDIRECT.name, "/old/"),
];

const PREFACE: &str = "\
Configuration of Sluicegate, with every key there is.

A line that starts with # and no space is a key at its default: remove the # and change the value. \
A line that starts with \"# e.g.\" shows another value. Lines without # are the headers of tables and \
the keys that a table cannot do without, with examples. One [[listener]] is all that a file needs; a \
[[route]] says what is answered. `sluicegate check FILE` says what is wrong and where, or prints what \
is in effect; `sluicegate run -c FILE` serves.

Durations are numbers with units in a string: ns, us, ms, s, m, h, d, as in \"250ms\" or \"1m30s\". \
Sizes are a number of bytes or a string with a unit: B, KiB, MiB, GiB, TiB (powers of 1024) or KB, \
MB, GB, TB (powers of 1000). Bounds are inclusive. Relative paths start at the folder of this file.";

/// The manual: a complete file that explains every key of this build, with the algorithms of `registry`.
///
/// The required keys hold examples; the others stand as comments at their defaults.
pub fn manual(registry: &Registry) -> String {
    let mut out = String::new();
    for (i, paragraph) in PREFACE.split("\n\n").enumerate() {
        out += if i > 0 { "#\n" } else { "" };
        prose(&mut out, "# ", paragraph);
    }
    for table in TABLES {
        out += "\n\n";
        if let Some((_, path)) = ROUTES.iter().find(|(name, _)| *name == table.name) {
            out += &format!("[[route]]\npath = \"{path}\"\n\n");
        }
        prose(&mut out, "# ", table.summary);
        let optional = if table.name == RULE.name { EXAMPLE } else { "" };
        out += &format!("{optional}{}\n", table.header());
        for key in table.keys() {
            describe(&mut out, table, &key);
            if table.name == LISTENER.name && key.name == "congestion_control" {
                registry
                    .iter()
                    .for_each(|algorithm| describe_algorithm(&mut out, algorithm));
            }
        }
    }
    out
}

fn describe(out: &mut String, table: &Table, key: &Key) {
    out.push('\n');
    prose(out, "# ", key.summary);
    let given = match key.given {
        Given::Required(_) => "Required".to_owned(),
        Given::Unset(words) => format!("Default: unset, {words}"),
        Given::Default(_) | Given::Option(_) => {
            format!("Default: {}", key.given.default_toml().unwrap_or_default())
        }
    };
    prose(
        out,
        "# ",
        &format!("{given}. Value: {}.", key.kind.expectation()),
    );
    let own_table = TABLES
        .iter()
        .any(|t| t.name == format!("{}.{}", table.name, key.name));
    let optional = table.name == RULE.name;
    let required = match key.given {
        Given::Required(example) => Some(example),
        _ => None,
    };
    for example in key
        .examples
        .iter()
        .copied()
        .chain(required.filter(|_| own_table || optional))
    {
        *out += &format!("{EXAMPLE}{} = {example}\n", key.name);
    }
    match (required, key.given.default_toml()) {
        _ if optional => {}
        (Some(example), _) if !own_table => *out += &format!("{} = {example}\n", key.name),
        (_, Some(default)) => *out += &format!("#{} = {default}\n", key.name),
        _ => {}
    }
}

fn describe_algorithm(out: &mut String, algorithm: &Algorithm) {
    *out += "#\n";
    prose(
        out,
        "#   ",
        &format!("\"{}\": {}", algorithm.name, algorithm.summary),
    );
    for (spec, default) in algorithm.defaults().iter() {
        let default = option(default);
        let line = format!(
            "{} = {default}: {} Value: {}.",
            spec.name,
            spec.summary,
            expectation(spec)
        );
        prose(out, "#     ", &line);
    }
    let (algorithm, options) = (algorithm.name.to_owned(), algorithm.defaults());
    let all = congestion_control(&CongestionControl { algorithm, options });
    *out += &format!("{EXAMPLE}congestion_control = {all}\n");
}

/// Appends `text` in lines that start with `prefix` and end before [`WIDTH`] where words allow it.
fn prose(out: &mut String, prefix: &str, text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty()
            && prefix.len() + line.chars().count() + 1 + word.chars().count() > WIDTH
        {
            *out += &format!("{prefix}{line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    *out += &format!("{prefix}{line}\n");
}
