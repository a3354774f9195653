//! Rate of the log's messages, so that strangers cannot write it without bound.

use std::time::{Duration, Instant};

use tracing::Level;
use tracing::callsite::Identifier;

/// Messages of a kind that may follow each other at once.
pub(super) const BURST: u32 = 32;
/// Time after which a kind may have one more message.
pub(super) const INTERVAL: Duration = Duration::from_millis(500);

/// Messages of each kind, the place in the code that they come from. There are as many kinds as such places.
#[derive(Debug, Default)]
pub(super) struct Rates {
    kinds: Vec<Kind>,
}

#[derive(Debug)]
struct Kind {
    callsite: Identifier,
    /// Time at which its messages would have come that fit the rate; ahead of the present by the part of the burst that is used.
    until: Instant,
    left_out: u64,
    level: Level,
    /// Text of the first message that was left out.
    example: String,
}

/// Messages of a kind that were left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) level: Level,
    pub(super) count: u64,
    pub(super) example: String,
}

impl Rates {
    /// Returns whether a message may be written now. Otherwise it counts as left out, and `example` returns its text if none of its
    /// kind is known.
    pub(super) fn admit(
        &mut self,
        (callsite, level): (Identifier, Level),
        now: Instant,
        example: impl FnOnce() -> String,
    ) -> bool {
        let known = self.kinds.iter_mut().position(|kind| kind.callsite == callsite);
        let at = known.unwrap_or_else(|| {
            self.kinds.push(Kind {
                callsite,
                until: now,
                left_out: 0,
                level,
                example: String::new(),
            });
            self.kinds.len() - 1
        });
        let kind = &mut self.kinds[at];
        let until = kind.until.max(now);
        if until.saturating_duration_since(now) < INTERVAL * BURST {
            kind.until = until + INTERVAL;
            return true;
        }
        if kind.left_out == 0 {
            kind.example = example();
        }
        kind.left_out += 1;
        false
    }

    /// Takes what was left out since the last time.
    pub(super) fn take_left_out(&mut self) -> Vec<LeftOut> {
        let left_out = self.kinds.iter_mut().filter(|kind| kind.left_out > 0);
        let taken = left_out.map(|kind| LeftOut {
            level: kind.level,
            count: std::mem::take(&mut kind.left_out),
            example: std::mem::take(&mut kind.example),
        });
        taken.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    /// Returns a kind of message; each number is another place in the code.
    fn kind(number: usize) -> (Identifier, Level) {
        struct Place;
        impl tracing::callsite::Callsite for Place {
            fn set_interest(&self, _: tracing::subscriber::Interest) {}
            fn metadata(&self) -> &tracing::Metadata<'_> {
                unreachable!("nobody asks")
            }
        }
        // Of a type with a size, so that they have different addresses.
        struct Sized(Place, #[expect(dead_code, reason = "for its size")] u8);
        impl tracing::callsite::Callsite for Sized {
            fn set_interest(&self, interest: tracing::subscriber::Interest) {
                self.0.set_interest(interest);
            }
            fn metadata(&self) -> &tracing::Metadata<'_> {
                self.0.metadata()
            }
        }
        static PLACES: [Sized; 2] = [Sized(Place, 0), Sized(Place, 1)];
        (Identifier(&PLACES[number]), Level::WARN)
    }

    #[test]
    fn a_kind_has_its_burst_and_then_its_rate() {
        let (mut rates, start) = (Rates::default(), clock::now());
        let mut admitted = |number, at| {
            let all = (0..1000).filter(|_| rates.admit(kind(number), at, String::new));
            all.count()
        };
        assert_eq!(admitted(0, start), 32);
        assert_eq!(admitted(0, start), 0);
        assert_eq!(admitted(1, start), 32, "of its own");
        assert_eq!(admitted(0, start + INTERVAL), 1);
        assert_eq!(admitted(0, start + 10 * INTERVAL), 9);
        assert_eq!(admitted(0, start + 1000 * INTERVAL), 32);
    }

    #[test]
    fn what_was_left_out_is_counted_with_an_example() {
        let (mut rates, now) = (Rates::default(), clock::now());
        for number in 0..BURST + 37 {
            rates.admit(kind(0), now, || format!("message {number}"));
        }
        rates.admit(kind(1), now, String::new);
        let expected = LeftOut { level: Level::WARN, count: 37, example: "message 32".to_owned() };
        assert_eq!(rates.take_left_out(), [expected]);
        assert_eq!(rates.take_left_out(), []);
    }
}
