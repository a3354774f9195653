//! The moving average of the share of CE-marked packets (§2.3.2).

use crate::EcnCounts;

/// Weight of the latest round in the average.
const GAIN: f64 = 1.0 / 16.0;

/// The average, called alpha.
#[derive(Clone, Debug)]
pub(super) struct MarkShare {
    alpha: f64,
    /// Whether a packet was ever marked. Until then nothing is known of the path's queue.
    is_known: bool,
    /// Counts of the present round.
    counted: u32,
    marked: u32,
}

impl Default for MarkShare {
    fn default() -> Self {
        Self { alpha: 1.0, is_known: false, counted: 0, marked: 0 }
    }
}

impl MarkShare {
    /// Counts the packets of an event and returns the share of them that was not marked.
    pub(super) fn count(&mut self, ecn: EcnCounts) -> f64 {
        let unmarked = ecn.ect0.saturating_add(ecn.ect1);
        let counted = unmarked.saturating_add(ecn.ce);
        self.counted = add(self.counted, counted);
        self.marked = add(self.marked, ecn.ce);
        self.is_known |= ecn.ce > 0;
        if counted == 0 { 1.0 } else { unmarked as f64 / counted as f64 }
    }

    /// Ends a round.
    pub(super) fn update(&mut self) {
        let (counted, marked) = (self.counted, self.marked);
        (self.counted, self.marked) = (0, 0);
        if self.is_known && counted > 0 {
            self.alpha += GAIN * (f64::from(marked) / f64::from(counted) - self.alpha);
        }
    }

    /// Returns the average; 1 until the first marks have been averaged.
    pub(super) const fn alpha(&self) -> f64 {
        self.alpha
    }
}

/// Returns the sum, which no round trip's packets reach the end of.
fn add(sum: u32, packets: u64) -> u32 {
    sum.saturating_add(u32::try_from(packets).unwrap_or(u32::MAX))
}
