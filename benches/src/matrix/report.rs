//! The matrix as a table, its known failures as another, and one cell in words.

use std::fmt::Write;

use super::cell::{Cell, Figure};
use super::expected::Expected;
use super::scenario::{Place, Scenario};

/// Returns a cell's figure in words, with its bound.
pub(super) fn describe(cell: &Cell, figure: &Figure) -> String {
    format!(
        "{} ({}), {}: {}, must be {}",
        cell.scenario,
        cell.place.name(),
        cell.control,
        show(figure),
        figure.bound
    )
}

/// Returns the command that runs a failing figure's first failing seed again.
pub fn replay(cell: &Cell, figure: &Figure) -> String {
    let seed = figure.failing_seeds.first();
    let seed = seed.map_or_else(String::new, |seed| format!(" --seed {seed}"));
    format!(
        "cargo run -p sluicegate-benches --profile ci --bin matrix -- --scenario {} --place {} --algorithm {}{seed}",
        cell.scenario,
        cell.place.name(),
        cell.control
    )
}

fn show(figure: &Figure) -> String {
    let measure = figure.bound.measure;
    figure.value.map_or_else(|| "–".to_owned(), |value| measure.show(value))
}

/// Form of a Markdown table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Columns of one width, for a terminal.
    Padded,
    /// No padding, for a document.
    Compact,
}

/// Returns the cells as Markdown, what fails in bold: two tables per place, the second with the scenarios that try options.
pub fn table(scenarios: &[Scenario], cells: &[Cell], layout: Layout) -> String {
    let (with_options, plain): (Vec<_>, Vec<_>) =
        scenarios.iter().partition(|scenario| scenario.tries_options());
    let mut text = String::new();
    for place in Place::ALL {
        let title = match place {
            Place::Simulator => "In the simulator",
            Place::EndToEnd => "Through real connections",
        };
        for (scenarios, what) in [(&plain, ""), (&with_options, ", with options")] {
            let named = |cell: &Cell| scenarios.iter().any(|one| one.name == cell.scenario);
            let here = cells.iter().filter(|cell| cell.place == place && named(cell));
            let here: Vec<_> = here.collect();
            if here.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = writeln!(text, "{title}{what}:\n");
            text.push_str(&markdown(&rows(scenarios, &here), layout));
        }
    }
    text
}

fn rows(scenarios: &[&Scenario], cells: &[&Cell]) -> Vec<Vec<String>> {
    let mut controls = Vec::new();
    for cell in cells {
        if !controls.contains(&cell.control) {
            controls.push(cell.control);
        }
    }
    let names = controls.iter().map(ToString::to_string);
    let head = ["scenario", "parameters", "must", "by"].map(str::to_owned);
    let mut rows = vec![head.into_iter().chain(names).collect::<Vec<_>>()];
    for scenario in scenarios {
        let own: Vec<_> = cells.iter().filter(|cell| cell.scenario == scenario.name).collect();
        if own.is_empty() {
            continue;
        }
        for (index, bound) in scenario.bounds.iter().enumerate() {
            let once = |text: &str| if index == 0 { text } else { "" }.to_owned();
            let mut row = vec![
                once(scenario.name),
                once(scenario.parameters),
                bound.to_string(),
                once(scenario.source),
            ];
            for control in &controls {
                let cell = own.iter().find(|cell| cell.control == *control);
                row.push(cell.map_or_else(String::new, |cell| entry(cell, index)));
            }
            rows.push(row);
        }
    }
    rows
}

fn entry(cell: &Cell, index: usize) -> String {
    let Some(figure) = cell.figures.get(index) else {
        return String::new();
    };
    let mut text = show(figure);
    if index == 0
        && cell.runs > 1
        && let Some(mean) = cell.mean_done
    {
        let _ = write!(text, ", mean {mean:.3} s");
    } else if let Some(mean) = figure.mean {
        let _ = write!(text, ", mean {}", figure.bound.measure.show(mean));
    }
    if figure.fails() { format!("**{text}**") } else { text }
}

/// Returns the known failures as Markdown, those of one reason in one row.
pub fn known_failures(expected: &[Expected]) -> String {
    let head = ["scenario", "where", "algorithms", "figure", "why"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    let alike = expected.chunk_by(|a, b| {
        (a.scenario, a.place, a.measure, a.reason) == (b.scenario, b.place, b.measure, b.reason)
    });
    for group in alike {
        let controls: Vec<_> = group.iter().flat_map(|entry| entry.controls).copied().collect();
        let Some(first) = group.first() else { continue };
        rows.push(vec![
            first.scenario.to_owned(),
            first.place.map_or("both", Place::name).to_owned(),
            controls.join(", "),
            first.measure.to_owned(),
            first.reason.to_owned(),
        ]);
    }
    markdown(&rows, Layout::Compact)
}

fn markdown(rows: &[Vec<String>], layout: Layout) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        match layout {
            Layout::Padded => cells.map(|cell| cell.chars().count()).max().unwrap_or(0),
            Layout::Compact => 1,
        }
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = match layout {
                Layout::Compact if cell.is_empty() => write!(text, "| "),
                _ => write!(text, "| {cell:<width$} "),
            };
        }
        text.push_str("|\n");
        if number == 0 {
            for width in &widths {
                let _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::bound::{Bound, Limit, Measure, Who};
    use crate::matrix::table::scenarios;
    use crate::virtual_net::Control;

    #[test]
    fn failing_figures_are_bold_and_come_with_their_replay() {
        let bound = Bound { who: Who::All, measure: Measure::Done, limit: Limit::AtMost(10.0) };
        let cell = Cell {
            scenario: "collapse",
            place: Place::EndToEnd,
            control: Control::of("reno"),
            figures: vec![Figure {
                bound,
                value: Some(12.5),
                mean: None,
                judged: true,
                failing_seeds: vec![3, 8],
            }],
            runs: 1,
            mean_done: None,
        };
        let text = table(&scenarios(), std::slice::from_ref(&cell), Layout::Compact);
        assert!(text.contains("| done ≤ 10.00 s |"), "{text}");
        assert!(text.contains("| **12.50 s** |"), "{text}");
        let command = replay(&cell, &cell.figures[0]);
        let wanted = "--scenario collapse --place end-to-end --algorithm reno --seed 3";
        assert!(command.ends_with(wanted), "{command}");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "bc"], ["def", ""]].map(|row| row.map(str::to_owned).to_vec());
        let padded = "| a   | bc |\n|-----|----|\n| def |    |\n";
        assert_eq!(markdown(&rows, Layout::Padded), padded);
        let compact = "| a | bc |\n|---|---|\n| def | |\n";
        assert_eq!(markdown(&rows, Layout::Compact), compact);
    }
}
