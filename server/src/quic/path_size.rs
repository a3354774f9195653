//! Notices when a path stops carrying datagrams of the size that was found for it (RFC 8899 §4.3).

/// Number of timeouts without an acknowledgement between them after which the server repeats the search for the path's size.
const BLACK_HOLE: u32 = 3;

/// Watches the acknowledgements of one connection.
#[derive(Debug, Default)]
pub(super) struct BlackHole {
    /// Bytes acknowledged when the timer last expired.
    acked: u64,
    /// Expirations of the timer since then.
    timeouts: u32,
}

impl BlackHole {
    /// A loss timer expired when `acked` bytes had been acknowledged in all. Returns whether the path's size is in doubt.
    pub(super) fn on_timeout(&mut self, acked: u64) -> bool {
        if std::mem::replace(&mut self.acked, acked) != acked {
            self.timeouts = 0;
        }
        self.timeouts += 1;
        self.timeouts == BLACK_HOLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_begins_the_count_anew() {
        let mut watch = BlackHole::default();
        let doubts = [0, 0, 500, 500, 500, 500].map(|acked| watch.on_timeout(acked));
        assert_eq!(doubts, [false, false, false, false, true, false]);
    }
}
