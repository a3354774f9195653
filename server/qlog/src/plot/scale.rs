//! Axes: round numbers for marks.

/// Returns a round step, so that there are about `marks` steps up to `largest`.
fn step(largest: f64, marks: f64) -> f64 {
    let rough = (largest / marks).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    let digit = match rough / power {
        rest if rest <= 1.0 => 1.0,
        rest if rest <= 2.0 => 2.0,
        rest if rest <= 5.0 => 5.0,
        _ => 10.0,
    };
    digit * power
}

/// Returns the marks from 0 to the first that is not less than `largest`.
pub(super) fn marks(largest: f64, about: f64) -> Vec<f64> {
    let step = step(largest, about);
    let mut marks = Vec::new();
    let mut place = 0.0;
    while marks.len() < 40 {
        let mark = step * place;
        marks.push(mark);
        if mark >= largest {
            break;
        }
        place += 1.0;
    }
    marks
}

/// Returns the marks of an axis of times, all within it.
pub(super) fn times(from: f64, to: f64, about: f64) -> impl Iterator<Item = f64> {
    let step = step(to - from, about);
    let first = (from / step).ceil();
    let marks = (0..40_u32).map(move |place| step * (first + f64::from(place)));
    marks.take_while(move |mark| *mark <= to)
}

/// Returns the mark of a time, in a unit that fits all of them.
pub(super) fn time(ms: f64, largest: f64) -> String {
    let (unit, name) = match largest {
        ms if ms < 2e3 => (1.0, "ms"),
        ms if ms < 6e5 => (1e3, "s"),
        ms if ms < 3.6e7 => (6e4, "min"),
        _ => (3.6e6, "h"),
    };
    format!("{} {name}", number(ms / unit))
}

/// Returns the mark of a number of bytes, in a unit that fits all of them.
pub(super) fn bytes(bytes: f64, largest: f64) -> String {
    let (unit, name) = match largest {
        bytes if bytes < 1e3 => (1.0, "B"),
        bytes if bytes < 1e6 => (1e3, "kB"),
        bytes if bytes < 1e9 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    format!("{} {name}", number(bytes / unit))
}

fn number(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_cover_all() {
        assert_eq!(marks(9.3, 5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(marks(0.0, 5.0).first(), Some(&0.0));
        assert!(marks(f64::MAX, 5.0).len() < 41);
    }

    #[test]
    fn times_are_round_wherever_the_axis_begins() {
        let times = |from, to| times(from, to, 5.0).collect::<Vec<f64>>();
        assert_eq!(times(0.0, 9.3), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(times(12_345.0, 13_675.0), [12_500.0, 13_000.0, 13_500.0]);
        assert!(times(3.2e12, 3.2e12 + 1e-3).len() < 41);
    }

    #[test]
    fn units_fit_the_largest_mark() {
        assert_eq!(time(500.0, 2000.0), "0.5 s");
        assert_eq!(time(0.5, 2.0), "0.5 ms");
        assert_eq!(bytes(2500.0, 1e4), "2.5 kB");
        assert_eq!(bytes(0.0, 2e6), "0 MB");
    }
}
