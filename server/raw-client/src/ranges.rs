//! Packet numbers received, as an ACK frame lists them.

use crate::frame::Frame;

/// Packet numbers, in ranges from the lowest to the highest. Neither end of a range touches another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds a number.
    pub(crate) fn add(&mut self, number: u64) {
        let at = self.0.partition_point(|(_, end)| end + 1 < number);
        match self.0.get_mut(at) {
            Some((start, end)) if *start <= number && number <= *end => {}
            Some((_, end)) if *end + 1 == number => {
                *end = number;
                if let Some(&(start, next)) = self.0.get(at + 1)
                    && start == number + 1
                {
                    self.0[at].1 = next;
                    self.0.remove(at + 1);
                }
            }
            Some((start, _)) if *start == number + 1 => *start = number,
            _ => self.0.insert(at, (number, number)),
        }
    }

    /// Returns the highest number.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.0.last().map(|(_, end)| *end)
    }

    /// Returns whether a number was added.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let at = self.0.partition_point(|(_, end)| *end < number);
        self.0.get(at).is_some_and(|(start, _)| *start <= number)
    }

    /// Returns an ACK frame of all numbers; `None` if there is none.
    pub(crate) fn ack(&self) -> Option<Frame> {
        let ((start, largest), lower) = self.0.split_last()?;
        let mut smallest = *start;
        let mut ranges = Vec::new();
        for (start, end) in lower.iter().rev() {
            ranges.push((smallest - end - 2, end - start));
            smallest = *start;
        }
        Some(Frame::Ack { largest: *largest, delay: 0, first: largest - start, ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_lists_gaps_and_ranges_from_the_top() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.ack(), None);
        for number in [5, 0, 1, 9, 7, 8, 3, 2, 5] {
            ranges.add(number);
        }
        // 0–3, 5, 7–9.
        let ack = Frame::Ack { largest: 9, delay: 0, first: 2, ranges: vec![(0, 0), (0, 3)] };
        assert_eq!(ranges.ack(), Some(ack));
        assert_eq!(ranges.largest(), Some(9));
    }
}
