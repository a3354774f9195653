//! The operator's manual: an example file that explains every key.

use sluicegate_cc::{Algorithm, Registry};

use crate::congestion::{CongestionControl, expectation, option, print_inline};
use crate::field::{Part, Record};
use crate::schema::{Given, Key, Kind, Reload, Table};
use crate::tables::{Config, Handler};

/// Columns of a line of prose.
const WIDTH: usize = 100;

/// Prefix of lines that need not be in a file.
const EXAMPLE: &str = "# e.g. ";

const PREFACE: &str = "\
Configuration of Sluicegate: every key, with its meaning, default and bounds.

A line that starts with # and no space is a key at its default: remove the # and change the value. \
A line that starts with \"# e.g.\" shows another value. Lines without # are the headers of tables and \
the required keys, with examples. A file needs one [[listener]]; each [[route]] says which requests \
get which handler.

`sluicegate check FILE` reports mistakes with their lines; with --print it prints the whole \
configuration with the defaults filled in. `sluicegate check --schema` prints a JSON Schema for editors. \
`sluicegate run -c FILE` starts the server; after `sluicegate reload FILE` or SIGHUP it reads the \
file again and applies the changes. If a key that needs a restart has changed, it applies none and \
says so.

Durations are numbers with units in a string: ns, us, ms, s, m, h, d, as in \"250ms\" or \"1m30s\". \
Sizes are a number of bytes or a string with a unit: B, KiB, MiB, GiB, TiB (powers of 1024) or KB, \
MB, GB, TB (powers of 1000). Bounds are inclusive. Relative paths start at the folder of this file.

In any string {env.NAME} stands for a variable of the server's environment, and {env.NAME:-x} for x where the variable is unset or \
empty. A variable that is not set and has no default is a mistake, with its line; {{env. is no variable. An upgrade and a reload keep \
the environment of the start.";

/// Returns the manual: a complete file that explains every key of this build, with the algorithms of `registry`.
///
/// The required keys hold examples; the others stand as comments at their defaults.
pub fn manual(registry: &Registry) -> String {
    let mut out = String::new();
    for (i, paragraph) in PREFACE.split("\n\n").enumerate() {
        out += if i > 0 { "#\n" } else { "" };
        prose(&mut out, "# ", paragraph);
    }
    for key in Config::TABLE.keys().filter(|key| key.kind.table().is_none()) {
        describe(&mut out, &key, false, true);
    }
    let (mut handlers, mut algorithms) = (0, registry.iter());
    for (table, holder) in Config::TABLE.inner() {
        out += "\n\n";
        if Handler::keys().iter().any(|key| key.name == holder.name) {
            handlers += 1;
            // The first handler is that of the route above; each other one needs a route of its own.
            if handlers > 1 {
                out += &format!("[[route]]\npath = \"/{}/\"\n\n", holder.name);
            }
        }
        prose(&mut out, "# ", table.summary);
        let restart = |key: Key| key.reload == Reload::Restart;
        let all_restart = table.keys().all(restart);
        if all_restart {
            prose(&mut out, "# ", "A change to any of these keys needs a restart.");
        }
        let optional = is_optional(&table, &holder);
        let prefix = if optional { EXAMPLE } else { "" };
        out += &format!("{prefix}{}\n", table.header());
        if table.name.starts_with("site.") {
            // Its summary names the table that says more about its keys.
            for key in table.keys() {
                let examples = key.given.required_example().into_iter();
                let example = examples.chain(key.examples.iter().copied()).next();
                out.extend(example.map(|example| format!("{EXAMPLE}{} = {example}\n", key.name)));
            }
            continue;
        }
        for key in table.keys() {
            describe(&mut out, &key, optional, !all_restart);
            if matches!(key.kind, Kind::CongestionControl) && !optional {
                // Once.
                algorithms.by_ref().for_each(|algorithm| describe_algorithm(&mut out, algorithm));
            }
        }
    }
    out
}

/// Returns whether the manual shows the table as an example: one that may be left out, of several or with required keys.
fn is_optional(table: &Table, holder: &Key) -> bool {
    let is_handler = Handler::keys().iter().any(|key| key.name == holder.name);
    let alone = table.has_required_key() && !is_handler;
    (table.many || alone) && matches!(holder.given, Given::Unset(_))
}

fn describe(out: &mut String, key: &Key, in_optional_table: bool, say_restart: bool) {
    out.push('\n');
    prose(out, "# ", key.summary);
    let given = match key.given {
        Given::Required(_) => "Required".to_owned(),
        Given::Either(_, other) => format!("Required without `{other}`"),
        Given::Unset(words) => format!("Default: unset, {words}"),
        Given::Default(_) | Given::Option(_) => {
            format!("Default: {}", key.given.default_toml().unwrap_or_default())
        }
    };
    let reload = if say_restart && key.reload == Reload::Restart {
        " A change needs a restart."
    } else {
        ""
    };
    let expectation = key.kind.expectation();
    prose(out, "# ", &format!("{given}. Value: {expectation}.{reload}"));
    let own_table = key.kind.table().is_some();
    let required = key.given.required_example();
    let examples = key.examples.iter().copied();
    for example in examples.chain(required.filter(|_| own_table || in_optional_table)) {
        *out += &format!("{EXAMPLE}{} = {example}\n", key.name);
    }
    match (required, key.given.default_toml()) {
        _ if in_optional_table => {}
        (Some(example), _) if !own_table => *out += &format!("{} = {example}\n", key.name),
        (_, Some(default)) => *out += &format!("#{} = {default}\n", key.name),
        _ => {}
    }
}

fn describe_algorithm(out: &mut String, algorithm: &Algorithm) {
    *out += "#\n";
    prose(out, "#   ", &format!("\"{}\": {}", algorithm.name, algorithm.summary));
    for (spec, default) in algorithm.defaults().iter() {
        let default = option(default);
        let line =
            format!("{} = {default}: {} Value: {}.", spec.name, spec.summary, expectation(spec));
        prose(out, "#     ", &line);
    }
    let (algorithm, options) = (algorithm.name.to_owned(), algorithm.defaults());
    let all = print_inline(&CongestionControl { algorithm, options });
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
