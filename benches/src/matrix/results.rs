//! The document of results: `cc/RESULTS.md`.

use super::cell::Cell;
use super::expected::Expected;
use super::report::{Layout, known_failures, table};
use super::scenario::Scenario;

/// Explains how to read the tables.
const READING: &str = include_str!("results.md");

/// Returns the document: `origin` says which commit and which machine the figures are from.
pub fn document(
    scenarios: &[Scenario],
    cells: &[Cell],
    expected: &[Expected],
    origin: &str,
) -> String {
    let figures = table(scenarios, cells, Layout::Compact);
    let failures = known_failures(expected);
    format!(
        "# Results\n\nWritten by `cargo run -p sluicegate-benches --profile ci --bin matrix -- --results cc/RESULTS.md`. \
         {origin}\n\n{READING}\n## Figures\n\n{figures}\n## What fails, and why\n\nA test compares this list with the \
         matrix: what fails must stand here, and what stands here must fail.\n\n{failures}"
    )
}
