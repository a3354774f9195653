//! Medians, percentiles, and the table of a run.

use std::fmt;

/// Samples of the rounds, by column; None for a column that takes no part.
pub(crate) type Samples<S> = Vec<Option<Vec<S>>>;

/// Returns the smallest of the sorted values that `percent` percent of them do not exceed; NaN where there are none.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// Returns the median, of an even number of values the mean of the two in the middle; NaN where there are none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    at(low).midpoint(at(high))
}

/// Returns the median of a figure.
pub(crate) fn middle<S>(samples: &[S], figure: impl Fn(&S) -> f64) -> String {
    short(median(samples.iter().map(figure)))
}

/// Returns the median of the ratios of a figure to that of the same rounds in other samples, with the smallest and the largest.
pub(crate) fn ratios<S>(samples: &[S], others: &[S], figure: impl Fn(&S) -> f64) -> String {
    let each = samples.iter().zip(others).map(|(own, other)| figure(own) / figure(other));
    let each: Vec<f64> = each.collect();
    let smallest = each.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = each.iter().copied().fold(0.0, f64::max);
    format!("{}, {} to {}", short(median(each)), short(smallest), short(largest))
}

/// Returns a number with three digits or so.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        below if below < 10.0 => 2,
        below if below < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// A table in Markdown: a column for each contestant, a row for each figure.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// The column that each is compared with.
    references: Vec<usize>,
}

impl Table {
    /// Returns a table with a column for each of these names, and the column that each is compared with.
    pub(crate) fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        references: Vec<usize>,
    ) -> Self {
        let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
        let rule = names.iter().map(|_| "---:".to_owned());
        let rule = std::iter::once("---".to_owned()).chain(rule).collect();
        let head = std::iter::once(String::new()).chain(names).collect();
        Self { rows: vec![head, rule], references }
    }

    /// Returns which columns are compared with another one than the first of all.
    pub(crate) fn scope(&self) -> &'static str {
        let first = self.references.iter().all(|column| *column == 0);
        if first { "" } else { " with the same backend" }
    }

    /// Has further rows compare all columns with the first.
    pub(crate) fn compare_with_first(&mut self) {
        self.references.fill(0);
    }

    /// Adds a row: its title, and the cell of each column, of its samples and those of the column that it is compared with.
    pub(crate) fn row<S>(
        &mut self,
        title: &str,
        samples: &Samples<S>,
        cell: impl Fn(&[S], Option<&[S]>) -> String,
    ) {
        let cells = samples.iter().zip(&self.references).map(|(own, reference)| match own {
            Some(own) => cell(own, samples[*reference].as_deref()),
            None => "–".to_owned(),
        });
        self.rows.push(std::iter::once(title.to_owned()).chain(cells).collect());
    }

    /// Adds a row of medians.
    pub(crate) fn medians<S>(
        &mut self,
        title: &str,
        samples: &Samples<S>,
        figure: impl Fn(&S) -> f64,
    ) {
        self.row(title, samples, |own, _| middle(own, &figure));
    }

    /// Adds a row of medians, and one of their ratios.
    pub(crate) fn rates<S>(
        &mut self,
        title: &str,
        samples: &Samples<S>,
        figure: impl Fn(&S) -> f64,
    ) {
        self.medians(title, samples, &figure);
        let title = format!("– median of the ratios to the first column{}", self.scope());
        self.row(&title, samples, |own, other| {
            other.map_or("–".to_owned(), |other| ratios(own, other, &figure))
        });
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
        let ratios = ratios(&[2.0, 9.0, 8.0], &[1.0, 3.0, 2.0], |value| *value);
        assert_eq!(ratios, "3.00, 2.00 to 4.00");
    }

    #[test]
    fn a_column_is_compared_with_its_reference() {
        let samples = [2.0, 8.0, 3.0, 4.0].map(|value| Some(vec![value]));
        let samples: Samples<f64> = samples.into_iter().chain([None]).collect();
        let mut table = Table::new(["a", "b", "c", "d", "e"], vec![0, 1, 0, 1, 0]);
        table.rates("r", &samples, |value| *value);
        let text = table.to_string();
        assert!(text.contains("| r | 2.00 | 8.00 | 3.00 | 4.00 | – |"), "{text}");
        let ratios = "the same backend | 1.00, 1.00 to 1.00 | 1.00, 1.00 to 1.00 | \
                      1.50, 1.50 to 1.50 | 0.50, 0.50 to 0.50 | – |";
        assert!(text.contains(ratios), "{text}");
    }
}
