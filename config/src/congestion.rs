//! An algorithm and its options, checked against the registry.

use sluicegate_cc::{Algorithm, OptionKind, OptionSpec, Options, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;
use crate::field::Field;
use crate::print;
use crate::schema::Key;
use crate::source::{Source, shown};
use crate::value::{Item, kind_of, real, whole};

/// An algorithm of the registry with a value for each of its options.
#[derive(Clone, Debug, PartialEq)]
pub struct CongestionControl {
    /// Name in the registry that the configuration was read with.
    pub algorithm: String,
    /// The algorithm's options, defaults filled in.
    pub options: Options,
}

/// No option is NaN: all have bounds.
impl Eq for CongestionControl {}

impl std::fmt::Display for CongestionControl {
    /// Writes the algorithm with all its options, as an inline table.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print_inline(self))
    }
}

impl Field for CongestionControl {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        let source = item.source;
        match &*item.value {
            DeValue::String(name) => {
                let algorithm = find(source, item.at, name)?;
                Ok(Self { algorithm: name.to_string(), options: algorithm.defaults() })
            }
            DeValue::Table(entries) => table(source, item.at, entries),
            _ => Err(item.refused()),
        }
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(print_inline(self))
    }
}

/// Returns the algorithm with all its options, as an inline table.
pub(crate) fn print_inline(control: &CongestionControl) -> String {
    let mut out = format!("{{ algorithm = {}", print::text(&control.algorithm));
    for (spec, value) in control.options.iter() {
        out += &format!(", {} = {}", spec.name, option(value));
    }
    out + " }"
}

/// Returns an option's value as TOML.
pub(crate) fn option(value: Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => format!("{number:?}"),
        Value::Boolean(_) | Value::Choice(_) => value.to_string(),
    }
}

fn find<'a>(source: &'a Source<'_>, at: usize, name: &str) -> Result<&'a Algorithm, Error> {
    source.registry.find(name).ok_or_else(|| {
        let known: Vec<&str> = source.registry.names().collect();
        let found = format!("unknown congestion control algorithm \"{}\"", shown(name));
        source.unknown(at, found, name, &known)
    })
}

fn table(
    source: &Source<'_>,
    at: usize,
    entries: &DeTable<'_>,
) -> Result<CongestionControl, Error> {
    let names: Vec<&str> = source.registry.names().collect();
    let names = format!("one of: {}", names.join(", "));
    let Some(value) = entries.get("algorithm") else {
        let found = "`congestion_control` has no `algorithm`";
        return Err(source.error(at, found, names));
    };
    let DeValue::String(name) = value.get_ref() else {
        let found = format!("{} for `algorithm`", kind_of(value.get_ref()));
        return Err(source.error(value.span().start, found, names));
    };
    let algorithm = find(source, value.span().start, name)?;
    let known = ["algorithm"].into_iter().chain(algorithm.options.iter().map(|spec| spec.name));
    let place = format!("for algorithm \"{name}\"");
    source.refuse_unknown(entries, &place, &known.collect::<Vec<_>>())?;

    let mut options = algorithm.defaults();
    for spec in algorithm.options {
        if let Some(value) = entries.get(spec.name) {
            let refused = || refused(source, spec, value);
            let given = value_of(spec, value.get_ref()).ok_or_else(refused)?;
            options.set(spec.name, given).map_err(|_| refused())?;
        }
    }
    Ok(CongestionControl { algorithm: name.to_string(), options })
}

/// Returns the value in the option's type, bounds unchecked.
fn value_of(spec: &OptionSpec, value: &DeValue<'_>) -> Option<Value> {
    match spec.kind {
        OptionKind::Integer { .. } => value.as_integer().and_then(whole).map(Value::Integer),
        OptionKind::Number { .. } => real(value).map(Value::Number),
        OptionKind::Boolean { .. } => value.as_bool().map(Value::Boolean),
        OptionKind::Choice { among, .. } => {
            let given = value.as_str()?;
            let word = among.iter().find(|word| **word == given);
            word.map(|word| Value::Choice(word))
        }
    }
}

fn refused(source: &Source<'_>, spec: &OptionSpec, value: &Spanned<DeValue<'_>>) -> Error {
    let (at, value) = (value.span().start, value.get_ref());
    let found = format!("{} for `{}`", kind_of(value), spec.name);
    match (spec.kind, value.as_str()) {
        (OptionKind::Choice { among, .. }, Some(word)) => source.unknown(at, found, word, among),
        _ => source.error(at, found, expectation(spec)),
    }
}

/// Returns what an option may hold, in words.
pub(crate) fn expectation(spec: &OptionSpec) -> String {
    let unit = match spec.unit.describe() {
        "" => String::new(),
        unit => format!(" of {unit}"),
    };
    match spec.kind {
        OptionKind::Integer { min, max, .. } => {
            format!("a whole number{unit} from {min} to {max}")
        }
        OptionKind::Number { min, max, .. } => format!("a number{unit} from {min} to {max}"),
        OptionKind::Boolean { .. } => "true or false".to_owned(),
        OptionKind::Choice { among, .. } => format!("one of: {}", among.join(", ")),
    }
}
