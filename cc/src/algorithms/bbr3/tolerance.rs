//! The losses of a round trip that do not show a full path (draft-ietf-ccwg-bbr-06 §2.8).

use super::params::CHANCE_DEVIATIONS;

/// The tolerated share of the packets in flight, with room for chance.
///
/// A path that loses packets at random loses more than their mean in half of all round trips, and a probe lasts several of
/// them: a bare share would end nearly every probe of a path that loses this share, and any probe with fewer than 50
/// packets in flight at its first loss. So chance may add to the share what the binomial distribution makes likely.
///
/// How much the path loses at random is what it loses between probes, and not what is tolerated: a full queue loses little
/// between probes, and its losses during one need no excuse. Above the tolerated share the room shrinks, and at twice the
/// share it is gone: such a path is overloaded by other flows, and more room would only add to their losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    /// Tolerated share of packets.
    pub(super) share: f64,
    /// Share of packets lost between probes.
    pub(super) between_probes: f64,
    /// Datagram size, bytes.
    pub(super) mtu: u64,
}

impl Tolerance {
    /// Returns the bytes of `in_flight` whose loss is tolerated.
    pub(super) fn bytes(&self, in_flight: u64) -> f64 {
        let in_flight = in_flight as f64;
        let random = self.between_probes.min(self.share);
        let variance = in_flight * self.mtu as f64 * random * (1.0 - random);
        in_flight * self.share + self.deviations() * variance.sqrt()
    }

    /// Returns the standard deviations that chance may add.
    fn deviations(&self) -> f64 {
        let excess = (self.between_probes / self.share - 1.0).clamp(0.0, 1.0);
        CHANCE_DEVIATIONS * (1.0 - excess)
    }

    /// Returns whether `lost` of `in_flight` bytes show that these were too many.
    pub(super) fn is_exceeded(&self, lost: u64, in_flight: u64) -> bool {
        lost > 0 && lost as f64 > self.bytes(in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1_200;

    /// Returns the most packets of `in_flight` whose loss is tolerated, with 2 % as the share.
    fn tolerated(between_probes: f64, in_flight: u64) -> u64 {
        let tolerance = Tolerance { share: 0.02, between_probes, mtu: MTU };
        let exceeds = |lost: &u64| tolerance.is_exceeded(lost * MTU, in_flight * MTU);
        (0..).find(exceeds).expect("finite") - 1
    }

    #[test]
    fn path_without_random_loss_gets_the_bare_share() {
        for (in_flight, most) in [(20, 0), (49, 0), (50, 1), (100, 2), (1_000, 20)] {
            assert_eq!(tolerated(0.0, in_flight), most, "{in_flight} packets");
        }
    }

    #[test]
    fn random_loss_makes_room_for_chance() {
        for (in_flight, most) in [(20, 1), (100, 4), (1_000, 28), (10_000, 228)] {
            assert_eq!(tolerated(0.02, in_flight), most, "{in_flight} packets");
        }
        assert_eq!(tolerated(0.005, 100), 3);
    }

    #[test]
    fn overloaded_path_gets_no_room() {
        assert_eq!(tolerated(0.03, 1_000), 24);
        for between_probes in [0.04, 0.5] {
            assert_eq!(tolerated(between_probes, 1_000), 20);
        }
    }
}
