//! The comparison of figures with those in the repository.

use std::collections::BTreeMap;
use std::fmt;

use super::baseline::Baseline;

/// Largest change of most figures that passes, relative to the one in the repository: more than three times what the figures of one
/// program differ by from run to run, 0.8 % at most.
pub const ALLOWED: f64 = 0.03;

/// A comparison.
#[derive(Clone, Debug)]
pub struct Report {
    rows: Vec<Row>,
    /// Compilers, libraries and tools that differ: name, then and now.
    others: Vec<(String, String, String)>,
}

/// What was counted of a workload.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of the workload.
    pub name: String,
    /// Unit of work.
    pub unit: &'static str,
    /// Largest change that passes, relative to the figure in the repository.
    pub allowed: f64,
    /// Instructions for each unit.
    pub instructions: f64,
}

/// Figures of one workload, instructions for each unit.
#[derive(Clone, Debug)]
struct Row {
    now: Figure,
    /// Figure in the repository; `None` for a new workload.
    before: Option<f64>,
}

impl Row {
    /// Returns the change relative to the figure in the repository.
    fn change(&self) -> Option<f64> {
        self.before.map(|before| self.now.instructions / before - 1.0)
    }

    /// Returns what is wrong with the figure.
    fn defect(&self) -> Option<&'static str> {
        match self.change() {
            None => Some("has no figure"),
            Some(change) if change > self.now.allowed => Some("slower"),
            Some(change) if change < -self.now.allowed => Some("faster"),
            Some(_) => None,
        }
    }
}

impl Report {
    /// Compares the figures of workloads with those in the repository.
    #[must_use]
    pub fn new(
        baseline: &Baseline,
        made_by: &BTreeMap<String, String>,
        figures: Vec<Figure>,
    ) -> Self {
        let rows = figures
            .into_iter()
            .map(|now| Row { before: baseline.instructions.get(&now.name).copied(), now });
        let others = made_by.iter().filter_map(|(name, now)| {
            let before = baseline.made_by.get(name).cloned().unwrap_or_default();
            (before != *now).then(|| (name.clone(), before, now.clone()))
        });
        Self { rows: rows.collect(), others: others.collect() }
    }

    /// Returns whether the figures may be judged: they were made by the same compiler, libraries and tools.
    #[must_use]
    pub fn is_comparable(&self) -> bool {
        self.others.is_empty()
    }

    /// Returns whether a figure is missing or has changed by more than is allowed, and can be judged.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.is_comparable() && self.rows.iter().any(|row| row.defect().is_some())
    }
}

/// Writes the table, and then what follows from it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = ("workload", "instructions for");
        writeln!(f, "{name:<14} {unit:<40} {:>11} {:>11}", "before", "now")?;
        for row in &self.rows {
            let before = row.before.map_or("-".to_owned(), |before| format!("{before:.1}"));
            let change = row.change().unwrap_or_default() * 100.0;
            write!(
                f,
                "{:<14} {:<40} {before:>11} {:>11.1} {change:>+7.2} %",
                row.now.name, row.now.unit, row.now.instructions
            )?;
            writeln!(f, "{}", row.defect().map_or(String::new(), |defect| format!("  {defect}")))?;
        }
        for (name, before, now) in &self.others {
            writeln!(
                f,
                "not judged: the figures in the repository are of {name} `{before}`, these of `{now}`"
            )?;
        }
        if self.is_refused() {
            write!(
                f,
                "A figure differs from benches/instructions.toml by more than passes, or is not in it.\n\
                 To see where instructions are spent, before and after: callgrind_annotate FOLDER/WORKLOAD.out\n\
                 If they are worth it, or fewer: `make counts ARGS=--accept` writes the new figures; commit them with the change,\n\
                 and say in its message what they buy.\n"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_by(rustc: &str) -> BTreeMap<String, String> {
        [("rustc".to_owned(), rustc.to_owned())].into()
    }

    fn figure(instructions: f64, allowed: f64) -> Figure {
        Figure { name: "request".to_owned(), unit: "a request", allowed, instructions }
    }

    fn report(now: Figure, rustc: &str) -> Report {
        let baseline = Baseline {
            made_by: made_by("1.95"),
            instructions: [("request".to_owned(), 1_000.0)].into(),
        };
        Report::new(&baseline, &made_by(rustc), vec![now])
    }

    #[test]
    fn changes_beyond_the_bound_are_refused_in_both_directions() {
        for (now, allowed, refused) in [
            (960.0, ALLOWED, Some("faster")),
            (975.0, ALLOWED, None),
            (1_000.0, ALLOWED, None),
            (1_025.0, ALLOWED, None),
            (1_040.0, ALLOWED, Some("slower")),
            (1_040.0, 0.05, None),
            (1_060.0, 0.05, Some("slower")),
        ] {
            let report = report(figure(now, allowed), "1.95");
            assert_eq!(report.is_refused(), refused.is_some(), "{now}");
            let text = report.to_string();
            assert_eq!(text.contains("--accept"), refused.is_some(), "{text}");
            assert!(text.contains(refused.unwrap_or("request")), "{text}");
        }
    }

    #[test]
    fn figures_of_another_compiler_are_only_shown() {
        let report = report(figure(2_000.0, ALLOWED), "1.96");
        assert!(!report.is_refused());
        let text = report.to_string();
        assert!(text.contains("+100.00 %"), "{text}");
        assert!(text.contains("not judged") && text.contains("`1.96`"), "{text}");
    }

    #[test]
    fn workload_without_a_figure_is_refused() {
        let figures = vec![figure(5.0, ALLOWED)];
        let report = Report::new(&Baseline::default(), &BTreeMap::new(), figures);
        assert!(report.is_refused());
        assert!(report.to_string().contains("has no figure"));
    }
}
