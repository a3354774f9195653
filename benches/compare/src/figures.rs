//! Medians, percentiles, and the table of a run.

use std::fmt;

/// Returns the smallest of the sorted values that `percent` percent of them do not exceed; NaN where there are none.
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// Returns the median, of an even number of values the mean of the two in the middle; NaN where there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    at(low).midpoint(at(high))
}

/// Returns the median of the ratios of values to those of the same rounds.
pub fn ratio(values: &[f64], others: &[f64]) -> f64 {
    median(values.iter().zip(others).map(|(value, other)| value / other))
}

/// Returns a number with three digits or so.
pub fn short(value: f64) -> String {
    let digits = match value.abs() {
        below if below < 10.0 => 2,
        below if below < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// A table in Markdown: a column per contender, a row per figure.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table with a column for each of these names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
        let rule = names.iter().map(|_| "---:".to_owned());
        let rule = std::iter::once("---".to_owned()).chain(rule).collect();
        let head = std::iter::once(String::new()).chain(names).collect();
        Self { rows: vec![head, rule] }
    }

    /// Adds a row: its title, and a cell per contender.
    pub fn row(&mut self, title: &str, cells: impl IntoIterator<Item = String>) {
        let row = std::iter::once(title.to_owned()).chain(cells);
        self.rows.push(row.collect());
    }

    /// Adds a row of rates, given by contender and round, and one of their ratios to those of the first contender.
    pub fn rates(&mut self, title: &str, rates: &[Vec<f64>]) {
        let cells = rates.iter().map(|rates| short(median(rates.iter().copied())));
        self.row(title, cells.collect::<Vec<_>>());
        let ratios = rates.iter().map(|own| short(ratio(own, &rates[0])));
        self.row("– median of the ratios to the first column", ratios.collect::<Vec<_>>());
    }

    /// Prints it.
    pub fn print(&self) {
        print!("{self}");
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "| {} |", row.join(" | "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 50), 50.0);
        assert_eq!(percentile(&sorted, 99), 99.0);
        assert_eq!(percentile(&[7.0], 99), 7.0);
        assert!(percentile(&[], 50).is_nan());
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 3.0, 1.0, 2.0]), 2.5);
        assert!(median([]).is_nan());
        assert_eq!(ratio(&[2.0, 9.0, 8.0], &[1.0, 3.0, 2.0]), 3.0);
    }
}
