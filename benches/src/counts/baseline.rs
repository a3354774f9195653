//! The figures in the repository.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;
use toml::{Table, Value};

/// Figures to compare with, and the tools that they were made with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline {
    /// Compiler, libraries and tools that the figures were made with, by name.
    pub made_by: BTreeMap<String, String>,
    /// Instructions for each unit of a workload, by the workload's name.
    pub instructions: BTreeMap<String, f64>,
}

/// Defect of the file.
#[derive(Debug, Error, PartialEq)]
pub enum BaselineError {
    /// It is no TOML.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// An entry is missing or has another type.
    #[error("`{0}` is missing or of another type")]
    Entry(&'static str),
}

const MADE_BY: &str = "made_by";
const INSTRUCTIONS: &str = "instructions";

impl Baseline {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// [`BaselineError`] where it has another form.
    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        let file: Table = text.parse()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let number = |value: &Value| value.as_float();
        Ok(Self {
            made_by: entries(&file, MADE_BY, text)?,
            instructions: entries(&file, INSTRUCTIONS, number)?,
        })
    }
}

fn entries<T>(
    file: &Table,
    name: &'static str,
    of: impl Fn(&Value) -> Option<T>,
) -> Result<BTreeMap<String, T>, BaselineError> {
    let table = file.get(name).and_then(Value::as_table);
    let table = table.ok_or(BaselineError::Entry(name))?;
    let entry = |(key, value): (&String, &Value)| Some((key.clone(), of(value)?));
    let entries = table.iter().map(entry).collect::<Option<_>>();
    entries.ok_or(BaselineError::Entry(name))
}

/// Writes the file.
impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# Instructions of common work, which `make counts` compares with those of the tree: README.md, \"Instructions\".\n\
             # Written by `make counts ARGS=--accept`.\n\n[{MADE_BY}]"
        )?;
        for (name, value) in &self.made_by {
            writeln!(f, "{name} = {}", Value::from(value.as_str()))?;
        }
        writeln!(f, "\n[{INSTRUCTIONS}]")?;
        for (name, value) in &self.instructions {
            writeln!(f, "{name} = {value:.1}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::counts::all;

    #[test]
    fn what_is_written_is_read_again() {
        let baseline = Baseline {
            made_by: [("rustc", "rustc 1.95.0 (\"a\")"), ("libc", "glibc 2.36")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            instructions: [("request", 61_234.5), ("sent-cubic", 40.0)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
        };
        assert_eq!(Baseline::parse(&baseline.to_string()), Ok(baseline));
    }

    #[test]
    fn other_forms_are_refused() {
        assert!(matches!(Baseline::parse("["), Err(BaselineError::Toml(_))));
        let missing = Baseline::parse("[made_by]\n");
        assert_eq!(missing, Err(BaselineError::Entry(INSTRUCTIONS)));
        let text = "[made_by]\n[instructions]\nrequest = \"many\"\n";
        assert_eq!(Baseline::parse(text), Err(BaselineError::Entry(INSTRUCTIONS)));
    }

    #[test]
    fn file_of_the_repository_has_this_form_and_a_figure_for_each_workload() {
        let text = include_str!("../../instructions.toml");
        let baseline = Baseline::parse(text).expect("the repository's file");
        assert_eq!(baseline.to_string(), text);
        let names: BTreeSet<_> = all().into_iter().map(|workload| workload.name).collect();
        assert!(baseline.instructions.keys().eq(&names), "{names:?}");
    }
}
