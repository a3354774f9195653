//! Bound on the files that flight recorders write.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Length of a period.
const PERIOD: Duration = Duration::from_secs(60);
/// Files of a period, and those of one kind: a storm of one kind leaves room for others.
const MOST: u32 = 12;
const MOST_OF_KIND: u32 = 4;
/// Kinds that are told apart.
const KINDS: usize = 16;

/// Bound on the files that the flight recorders of a process write: 12 a minute, 4 of them of one kind.
#[derive(Debug, Default)]
pub struct DumpLimit(Mutex<Option<Period>>);

#[derive(Debug)]
struct Period {
    began: Instant,
    files: u32,
    of_kind: [u32; KINDS],
}

impl DumpLimit {
    /// Returns whether a file of a kind, of at most 16, may be written now, and counts it.
    pub fn take(&self, kind: usize, now: Instant) -> bool {
        let mut period = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |period: &Period| now.saturating_duration_since(period.began) >= PERIOD;
        if period.as_ref().is_none_or(is_over) {
            *period = Some(Period { began: now, files: 0, of_kind: [0; KINDS] });
        }
        let Some(period) = period.as_mut() else {
            return false;
        };
        let of_kind = &mut period.of_kind[kind.min(KINDS - 1)];
        if period.files >= MOST || *of_kind >= MOST_OF_KIND {
            return false;
        }
        period.files += 1;
        *of_kind += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn storm_has_a_few_files_a_minute_and_leaves_room_for_other_kinds() {
        let limit = DumpLimit::default();
        let begun = clock::now();
        let count = |kind, at| (0..100).filter(|_| limit.take(kind, begun + at)).count();
        assert_eq!(count(0, Duration::ZERO), 4);
        assert_eq!(count(1, Duration::from_secs(1)), 4);
        assert_eq!((2..20).map(|kind| count(kind, Duration::from_secs(59))).sum::<usize>(), 4);
        assert_eq!(count(0, PERIOD), 4);
    }
}
