//! The detector of persistent congestion against a reference that remembers everything.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sluicegate_cc::{EcnCounts, Event, Packet, PersistentCongestion, Rtt, Time};

/// srtt 20 ms, var 0, max_ack_delay 19 ms: three PTOs are 120 ms.
const RTT: Rtt = Rtt {
    latest: Duration::from_millis(20),
    smoothed: Duration::from_millis(20),
    var: Duration::ZERO,
    min: Some(Duration::from_millis(20)),
    max_ack_delay: Duration::from_millis(19),
};
const LIMIT: Duration = Duration::from_millis(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    Acked,
    Lost,
}

/// Packets sent 10 ms apart after a first that brought the sample.
#[derive(Debug)]
struct History {
    fates: Vec<Fate>,
}

impl History {
    fn sent(number: usize) -> Time {
        Time::ZERO + Duration::from_millis(10 * number as u64)
    }

    /// Returns whether two lost packets lie far enough apart with none acknowledged between.
    fn is_established(&self) -> bool {
        let runs = self.fates.split(|fate| *fate == Fate::Acked);
        let mut start = 0;
        for run in runs {
            let lost = |fate: &Fate| *fate == Fate::Lost;
            let ends = run.iter().position(lost).zip(run.iter().rposition(lost));
            let long = |(first, last)| {
                Self::sent(start + last).saturating_since(Self::sent(start + first)) > LIMIT
            };
            if ends.is_some_and(long) {
                return true;
            }
            start += run.len() + 1;
        }
        false
    }

    /// Settles some of the oldest packets in flight and returns their numbers.
    fn settle(&mut self, choices: &[bool], fate: Fate) -> Vec<usize> {
        let in_flight = |&(_, f): &(usize, &Fate)| *f == Fate::InFlight;
        let oldest = self.fates.iter().enumerate().filter(in_flight).map(|(number, _)| number);
        let chosen = oldest.zip(choices).filter(|(_, chosen)| **chosen).map(|(number, _)| number);
        let chosen: Vec<_> = chosen.collect();
        chosen.iter().for_each(|&number| self.fates[number] = fate);
        chosen
    }

    fn least_unacked(&self) -> usize {
        let oldest = self.fates.iter().position(|fate| *fate == Fate::InFlight);
        oldest.unwrap_or(self.fates.len())
    }
}

fn tell(
    detector: &mut PersistentCongestion,
    acked: &[usize],
    lost: &[usize],
    least: usize,
) -> bool {
    let packets = |numbers: &[usize]| -> Vec<_> {
        let packet = |&n: &usize| Packet {
            packet_number: n as u64,
            time_sent: History::sent(n),
            bytes: 1_200,
            ..Packet::default()
        };
        numbers.iter().map(packet).collect()
    };
    let (acked, lost) = (packets(acked), packets(lost));
    detector.on_event(&Event {
        now: Time::ZERO,
        acked: &acked,
        lost: &lost,
        late_acked: &[],
        in_flight_before: 0,
        in_flight: 0,
        rtt: RTT,
        rtt_updated: !acked.is_empty(),
        ecn: EcnCounts::NONE,
        least_unacked: least as u64,
    })
}

/// Acknowledgements of any packets in flight, losses from the oldest on.
fn event() -> impl Strategy<Value = (Vec<bool>, usize)> {
    let ack = prop_oneof![3 => Just(false), 1 => Just(true)];
    (prop::collection::vec(ack, 0..12), 0usize..16)
}

fn config() -> ProptestConfig {
    let base = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let rng_seed = match base.rng_seed {
        RngSeed::Random => RngSeed::Fixed(0x9e_25),
        given @ RngSeed::Fixed(_) => given,
    };
    println!("PROPTEST_RNG_SEED: {rng_seed:?}");
    ProptestConfig { rng_seed, cases: base.cases.max(2_000), ..base }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn detector_agrees_with_the_whole_history(
        events in prop::collection::vec(event(), 1..12)
    ) {
        let mut history = History { fates: vec![Fate::InFlight; 80] };
        history.fates[0] = Fate::Acked;
        let mut detector = PersistentCongestion::new();
        prop_assert!(!tell(&mut detector, &[0], &[], 1));
        for (acks, losses) in events {
            let acked = history.settle(&acks, Fate::Acked);
            let lost = history.settle(&vec![true; losses], Fate::Lost);
            let answer = tell(&mut detector, &acked, &lost, history.least_unacked());
            prop_assert_eq!(answer, history.is_established());
            if answer {
                break;
            }
        }
    }
}
