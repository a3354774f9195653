//! Variables of the environment in the strings of a configuration: `{env.NAME}`, or `{env.NAME:-default}`.

use std::ffi::OsString;

use toml::de::{DeTable, DeValue};

use crate::error::Error;
use crate::source::{Source, shown};

/// Function that returns the value of a variable.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Beginning of a variable in a text.
const OPENS: &str = "{env.";

/// Reason for which a text cannot be filled.
#[derive(Debug)]
pub(crate) struct Unfilled {
    pub(crate) found: String,
    pub(crate) expected: String,
}

/// Returns the value of a variable of this process.
#[expect(
    clippy::disallowed_methods,
    reason = "the configuration names its variables, so nobody can pass their values in"
)]
pub(crate) fn of_process(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Puts the values of variables into all strings of a table. Keys stay as they are.
pub(crate) fn fill(
    table: &mut DeTable<'_>,
    source: &Source<'_>,
    environment: Environment<'_>,
) -> Result<(), Error> {
    // Without this most files would be walked for nothing.
    if !source.text.contains(OPENS) {
        return Ok(());
    }
    for (_, value) in table.iter_mut() {
        let at = value.span().start;
        fill_value(value.get_mut(), at, source, environment)?;
    }
    Ok(())
}

fn fill_value(
    value: &mut DeValue<'_>,
    at: usize,
    source: &Source<'_>,
    environment: Environment<'_>,
) -> Result<(), Error> {
    match value {
        DeValue::String(text) => match filled(text, environment) {
            Ok(None) => Ok(()),
            Ok(Some(filled)) => {
                *text = filled.into();
                Ok(())
            }
            Err(error) => Err(source.error(at, error.found, error.expected)),
        },
        DeValue::Array(list) => list.iter_mut().try_for_each(|value| {
            let at = value.span().start;
            fill_value(value.get_mut(), at, source, environment)
        }),
        DeValue::Table(table) => table.iter_mut().try_for_each(|(_, value)| {
            let at = value.span().start;
            fill_value(value.get_mut(), at, source, environment)
        }),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            Ok(())
        }
    }
}

/// Returns a text with the values in place of its variables; `None` if it has none. Values are not searched for variables. A
/// second brace in front keeps a variable from being one.
pub(crate) fn filled(text: &str, environment: Environment<'_>) -> Result<Option<String>, Unfilled> {
    if !text.contains(OPENS) {
        return Ok(None);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(OPENS) {
        let (before, variable) = rest.split_at(at);
        out.push_str(before);
        if before.ends_with('{') {
            out.push_str(OPENS);
            rest = &variable[OPENS.len()..];
            continue;
        }
        let (inner, behind) = variable[OPENS.len()..].split_once('}').ok_or_else(|| Unfilled {
            found: format!("`{}` without a closing brace", shown(variable)),
            expected: "{env.NAME}, or {env.NAME:-default}".to_owned(),
        })?;
        out.push_str(&value_of(inner, environment)?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(Some(out))
}

/// Returns the value of a variable that stands between braces, or its default.
fn value_of(inner: &str, environment: Environment<'_>) -> Result<String, Unfilled> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.bytes().all(plain)
    {
        return Err(Unfilled {
            found: format!("name \"{}\" of a variable", shown(name)),
            expected: "letters, digits and `_`, as in {env.NAME} or {env.NAME:-default}".to_owned(),
        });
    }
    // As in a shell, an empty value has the default in its place.
    let value = environment(name).filter(|value| !value.is_empty() || default.is_none());
    match (value.map(OsString::into_string), default) {
        (Some(Ok(value)), _) => Ok(value),
        (Some(Err(_)), _) => Err(Unfilled {
            found: format!("the environment variable {name} is not UTF-8"),
            expected: "text".to_owned(),
        }),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Unfilled {
            found: format!("the environment variable {name} is not set"),
            expected: format!(
                "a value in the server's environment, or a default: {{env.{name}:-default}}"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<OsString> {
        match name {
            "PORT" => Some("8443".into()),
            "NESTED" => Some("{env.PORT}".into()),
            "EMPTY" => Some(OsString::new()),
            _ => None,
        }
    }

    #[test]
    fn values_stand_in_place_of_variables_and_are_not_read_again() {
        for (text, expected) in [
            ("no {host}", None),
            ("[::]:{env.PORT}", Some("[::]:8443")),
            ("{env.PORT}-{env.PORT}{path}", Some("8443-8443{path}")),
            ("{env.NESTED}", Some("{env.PORT}")),
            ("{env.NONE:-80}", Some("80")),
            ("{env.NONE:-}", Some("")),
            ("{env.EMPTY:-80}", Some("80")),
            ("<{env.EMPTY}>", Some("<>")),
            ("{{env.PORT}", Some("{{env.PORT}")),
        ] {
            assert_eq!(filled(text, &environment).unwrap().as_deref(), expected, "{text}");
        }
        for (text, found) in [
            ("{env.NONE}", "the environment variable NONE is not set"),
            ("{env.PORT", "`{env.PORT` without a closing brace"),
            ("{env.}", "name \"\" of a variable"),
            ("{env.1}", "name \"1\" of a variable"),
            ("{env.a b}", "name \"a b\" of a variable"),
        ] {
            assert_eq!(filled(text, &environment).unwrap_err().found, found, "{text}");
        }
    }
}
