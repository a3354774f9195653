//! Selects the connections that are traced.

use boring::hash::hmac_sha256;

/// Picks a share of connections by their original destination connection ID: the same one is picked or not every time, by every worker
/// and every process with the same key. Clients can't foresee the choice.
#[derive(Clone)]
pub struct Sampler {
    rate: f64,
    key: [u8; 32],
    /// Hashes below it are picked; `None` picks all.
    threshold: Option<u64>,
}

impl Sampler {
    /// Picks about `rate` of all connections, from 0 for none to 1 for all. What is not a number picks none.
    pub fn new(rate: f64, key: [u8; 32]) -> Sampler {
        let rate = if rate.is_nan() { 0.0 } else { rate.clamp(0.0, 1.0) };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below 2^64, and a fraction of a hash value means nothing"
        )]
        let threshold = (rate < 1.0).then_some((rate * 2f64.powi(64)) as u64);
        Sampler { rate, key, threshold }
    }

    /// Returns the configured share; the trace holds it, so that statistics can be weighted.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns whether the connection that a client opened with `original_dcid` is traced.
    pub fn samples(&self, original_dcid: &[u8]) -> bool {
        let Some(threshold) = self.threshold else {
            return true;
        };
        // At rate 0, the usual case, no hash is paid for.
        threshold > 0 && self.hash(original_dcid) < threshold
    }

    fn hash(&self, original_dcid: &[u8]) -> u64 {
        let digest = hmac_sha256(&self.key, original_dcid)
            .expect("HMAC-SHA256 fails only where memory ran out");
        let (first, _) = digest.split_first_chunk().expect("a digest of 32 bytes holds 8");
        u64::from_be_bytes(*first)
    }
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("rate", &self.rate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_picked_is_near_the_rate_under_every_key() {
        for rate in [0.01, 0.1, 0.5, 0.9] {
            for key in 0..8u8 {
                let sampler = Sampler::new(rate, [key; 32]);
                let total = 20_000u32;
                let picked = (0..total).filter(|n| sampler.samples(&n.to_be_bytes())).count();
                // Five standard deviations of a binomial.
                let (mean, deviation) =
                    (f64::from(total) * rate, (f64::from(total) * rate * (1.0 - rate)).sqrt());
                let picked = f64::from(u32::try_from(picked).unwrap());
                assert!(
                    (picked - mean).abs() < 5.0 * deviation,
                    "{picked} at rate {rate}, key {key}"
                );
            }
        }
    }

    #[test]
    fn the_choice_is_the_same_every_time_and_differs_by_key() {
        let (first, again, other) =
            (Sampler::new(0.5, [1; 32]), Sampler::new(0.5, [1; 32]), Sampler::new(0.5, [2; 32]));
        let mut differ = 0;
        for n in 0..1000u32 {
            let dcid = n.to_be_bytes();
            assert_eq!(first.samples(&dcid), again.samples(&dcid));
            differ += u32::from(first.samples(&dcid) != other.samples(&dcid));
        }
        assert!((300..700).contains(&differ), "{differ}");
    }

    #[test]
    fn a_higher_rate_picks_all_that_a_lower_one_does() {
        let (low, high) = (Sampler::new(0.1, [1; 32]), Sampler::new(0.2, [1; 32]));
        let dcids = (0..2000u32).map(u32::to_be_bytes);
        let picked: Vec<_> = dcids.filter(|dcid| low.samples(dcid)).collect();
        assert!(picked.len() > 100);
        assert!(picked.iter().all(|dcid| high.samples(dcid)));
    }

    #[test]
    fn ends_and_nonsense_are_clear_cut() {
        for (rate, expected) in [
            (0.0, false),
            (-1.0, false),
            (f64::NAN, false),
            (1.0, true),
            (7.0, true),
            (f64::INFINITY, true),
        ] {
            let sampler = Sampler::new(rate, [1; 32]);
            for n in 0..1000u32 {
                assert_eq!(sampler.samples(&n.to_be_bytes()), expected, "{rate}");
            }
        }
    }
}
