//! `sluicegate cc` prints the algorithms and their options as tables.

use std::io::{self, Write};

use sluicegate_cc::{Algorithm, Registry};
use sluicegate_config::Config;

/// Longest line, in columns.
const WIDTH: usize = 100;
/// Indentation of every line but the algorithms' names.
const INDENT: &str = "  ";
const TITLES: [&str; 4] = ["OPTION", "DEFAULT", "BOUNDS", "UNIT"];

/// Writes a table for each algorithm of `registry`.
///
/// # Errors
/// Returns the text of `out`.
pub(super) fn list(registry: &Registry, out: &mut impl Write) -> io::Result<()> {
    let embedded = Config::embedded();
    let default = embedded.listeners.first();
    let default = default.map_or("", |l| l.congestion_control.algorithm.as_str());
    for (i, algorithm) in registry.iter().enumerate() {
        let space = if i > 0 { "\n" } else { "" };
        let mark = if algorithm.name == default { " (the default)" } else { "" };
        writeln!(out, "{space}{}{mark}", algorithm.name)?;
        for line in wrap(algorithm.summary, WIDTH - INDENT.len()) {
            writeln!(out, "{INDENT}{line}")?;
        }
        if !algorithm.options.is_empty() {
            writeln!(out)?;
            table(algorithm, out)?;
        }
    }
    Ok(())
}

/// Writes the options of an algorithm. The last column wraps; the others are as wide as their longest cell.
fn table(algorithm: &Algorithm, out: &mut impl Write) -> io::Result<()> {
    let rows: Vec<[String; 4]> = algorithm
        .options
        .iter()
        .map(|spec| {
            [
                spec.name.to_owned(),
                spec.kind.default_value().to_string(),
                spec.kind.range(),
                spec.unit.describe().to_owned(),
            ]
        })
        .collect();
    let mut widths = TITLES.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    let line = |cells: [&str; 4], last: &str| {
        let mut line = INDENT.to_owned();
        for (cell, width) in cells.iter().zip(widths) {
            line += &format!("{cell:<width$}  ");
        }
        line += last;
        line
    };
    let taken = line([""; 4], "").len();
    writeln!(out, "{}", line(TITLES, "WHAT IT DOES"))?;
    for (row, spec) in rows.iter().zip(algorithm.options) {
        let mut cells = row.each_ref().map(String::as_str);
        for sentence in wrap(spec.summary, WIDTH - taken) {
            writeln!(out, "{}", line(cells, &sentence))?;
            cells = [""; 4];
        }
    }
    Ok(())
}

/// Wraps a text into one line or more of at most `width` characters, except for longer words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("it starts with one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed() -> String {
        let mut out = Vec::new();
        list(&Registry::builtin(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Returns the lines from an algorithm's name to the next one's.
    fn part<'a>(text: &'a str, algorithm: &str) -> Vec<&'a str> {
        let mut lines = text.lines();
        lines.by_ref().find(|line| line.split(' ').next() == Some(algorithm));
        let of_it = |line: &&str| line.is_empty() || line.starts_with(' ');
        lines.take_while(of_it).collect()
    }

    #[test]
    fn every_option_has_a_row_with_all_that_its_descriptor_says() {
        let text = listed();
        for algorithm in Registry::builtin().iter() {
            let part = part(&text, algorithm.name);
            for spec in algorithm.options {
                let name = format!("{INDENT}{} ", spec.name);
                let row = part.iter().position(|line| line.starts_with(&name));
                let row = row.unwrap_or_else(|| panic!("no {} in {text}", spec.name));
                let cells: Vec<&str> = part[row].split("  ").map(str::trim).collect();
                let cells: Vec<&str> = cells.into_iter().filter(|c| !c.is_empty()).collect();
                let (default, range) = (spec.kind.default_value().to_string(), spec.kind.range());
                let mut expected = vec![spec.name, &default, &range];
                expected.extend(Some(spec.unit.describe()).filter(|unit| !unit.is_empty()));
                assert_eq!(cells[..cells.len() - 1], expected);
                let column = part[row].find(cells[cells.len() - 1]).unwrap();
                let mut sentence = part[row][column..].to_owned();
                for line in &part[row + 1..] {
                    if line.len() <= column || !line[..column].trim().is_empty() {
                        break;
                    }
                    sentence = format!("{sentence} {}", &line[column..]);
                }
                assert_eq!(sentence, spec.summary, "{}", spec.name);
            }
        }
    }

    #[test]
    fn columns_stand_below_their_titles() {
        let text = listed();
        for algorithm in Registry::builtin().iter() {
            let part = part(&text, algorithm.name);
            let Some(titles) = part.iter().find(|line| line.contains("OPTION")) else {
                continue;
            };
            let at = titles.find("DEFAULT").unwrap();
            for spec in algorithm.options {
                let name = format!("{INDENT}{} ", spec.name);
                let row = part.iter().find(|line| line.starts_with(&name)).unwrap();
                let default = spec.kind.default_value().to_string();
                assert!(row[at..].starts_with(&default), "{row}");
            }
        }
    }

    #[test]
    fn no_line_is_too_long_and_the_default_is_named() {
        let text = listed();
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(WIDTH), "{text}");
        assert_eq!(text.matches("(the default)").count(), 1);
        assert!(text.contains("cubic (the default)\n"), "{text}");
    }
}
