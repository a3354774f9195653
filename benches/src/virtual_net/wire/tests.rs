//! One direction in virtual time: delay, rate, faults, AQM.

use sluicegate_sim::{AckPath, Aqm, LossWindow, Reorder};

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Takes the contents of a packet that arrived by `now`.
fn take(wire: &mut Wire, now: Duration) -> Option<Vec<u8>> {
    wire.take_delivery(now).map(|packet| packet.bytes)
}

fn arrivals(wire: &mut Wire) -> Vec<Duration> {
    let mut times = Vec::new();
    while let Some(at) = wire.next_arrival() {
        let packet = take(wire, at).expect("due");
        wire.recycle(packet);
        times.push(at);
    }
    times
}

#[test]
fn packet_arrives_after_the_delay_and_not_before() {
    let mut wire = Wire::new(&Bottleneck::unlimited(5 * MS), 1);
    wire.depart(MS, &[1, 2, 3]);
    assert_eq!((wire.next_arrival(), wire.bytes()), (Some(6 * MS), 3));
    assert_eq!(take(&mut wire, 6 * MS - Duration::from_nanos(1)), None);
    assert_eq!(take(&mut wire, 6 * MS), Some(vec![1, 2, 3]));
    assert_eq!(wire.bytes(), 0);
}

#[test]
fn rate_spaces_packets_and_a_full_queue_drops() {
    // A thousand bytes take a millisecond.
    let path = Bottleneck {
        rate: vec![(Duration::ZERO, 8_000_000)],
        queue_bytes: 3_000,
        ..Bottleneck::unlimited(5 * MS)
    };
    let mut wire = Wire::new(&path, 1);
    for _ in 0..4 {
        wire.depart(Duration::ZERO, &[0; 1_000]);
    }
    wire.depart(MS, &[0; 1_000]);
    assert_eq!(arrivals(&mut wire), [6 * MS, 7 * MS, 8 * MS, 9 * MS]);
}

#[test]
fn loss_happens_within_its_time_only() {
    let window = LossWindow { from: MS, until: 2 * MS, probability: 1.0 };
    let path = Bottleneck { loss: vec![window], ..Bottleneck::unlimited(Duration::ZERO) };
    let mut wire = Wire::new(&path, 1);
    for at in [Duration::ZERO, MS, 2 * MS] {
        wire.depart(at, &[0]);
    }
    assert_eq!(arrivals(&mut wire), [Duration::ZERO, 2 * MS]);
}

#[test]
fn losses_follow_the_probability() {
    let window = LossWindow { from: Duration::ZERO, until: MS, probability: 0.3 };
    let path = Bottleneck { loss: vec![window], ..Bottleneck::unlimited(Duration::ZERO) };
    let mut wire = Wire::new(&path, 7);
    for _ in 0..10_000 {
        wire.depart(Duration::ZERO, &[0]);
    }
    let arrived = arrivals(&mut wire).len();
    assert!((6_800..7_200).contains(&arrived), "{arrived}");
}

#[test]
fn overtaken_packets_arrive_after_those_that_left_later() {
    let reorder = Some(Reorder { probability: 0.5, by: 3 * MS });
    let path = Bottleneck { reorder, ..Bottleneck::unlimited(5 * MS) };
    let mut wire = Wire::new(&path, 1);
    for at in 0..20 {
        wire.depart(at * MS, &[u8::try_from(at).expect("small")]);
    }
    let mut order = Vec::new();
    while let Some(at) = wire.next_arrival() {
        order.extend(take(&mut wire, at));
    }
    assert_eq!(order.len(), 20);
    assert!(!order.is_sorted(), "{order:?}");
}

#[test]
fn held_packets_come_in_batches() {
    let path = Bottleneck { ack_hold: 10 * MS, ..Bottleneck::unlimited(5 * MS) };
    let mut wire = Wire::new(&path, 1);
    for at in [0, 4, 5, 6] {
        wire.depart(at * MS, &[0]);
    }
    assert_eq!(arrivals(&mut wire), [10 * MS, 10 * MS, 10 * MS, 20 * MS]);
}

#[test]
fn delivery_has_its_times_and_its_mark() {
    let path = Bottleneck {
        rate: vec![(Duration::ZERO, 8_000_000)],
        ce_above: Some(500),
        ..Bottleneck::unlimited(5 * MS)
    };
    let mut wire = Wire::new(&path, 1);
    for _ in 0..2 {
        wire.depart(MS, &[0; 1_000]);
    }
    let mut next = || wire.take_delivery(8 * MS).expect("due");
    let first = next();
    assert_eq!((first.departed, first.arrives), (MS, 7 * MS));
    let second = next();
    assert_eq!((second.departed, second.arrives), (MS, 8 * MS));
    assert_eq!((first.ce, second.ce), (false, true));
}

#[test]
fn aqm_sends_at_the_rate_and_drops_what_waits_too_long() {
    // A thousand bytes take a millisecond, and each comes with half of another.
    let path = Bottleneck {
        rate: vec![(Duration::ZERO, 8_000_000)],
        aqm: Some(Aqm::CoDel { ecn: true }),
        ..Bottleneck::unlimited(5 * MS)
    };
    let mut wire = Wire::new(&path, 1);
    let mut times = Vec::new();
    for at in 0..1_000 {
        let now = at * MS;
        while wire.next_arrival().is_some_and(|at| at <= now) {
            let at = wire.next_arrival().expect("there is one");
            if take(&mut wire, at).is_some() {
                times.push(at);
            }
        }
        wire.depart(now, &[0; 1_000]);
        wire.depart(now, &[0; 500]);
    }
    assert_eq!(times[0], 6 * MS);
    let mean = (times[times.len() - 1] - times[0]) / u32::try_from(times.len()).expect("few");
    assert!((730..770).contains(&mean.as_micros()), "{mean:?}");
    let arrived = times.len() as u64 * 750 + wire.bytes();
    assert!(arrived < 1_495_000, "nothing was dropped: {arrived}");
}

/// Returns the arrivals at a link that is served at these times, after ten packets of a millisecond each entered at once.
fn served(aqm: Aqm, times: impl IntoIterator<Item = Duration>) -> Vec<Duration> {
    let path = Bottleneck {
        rate: vec![(Duration::ZERO, 8_000_000)],
        aqm: Some(aqm),
        ..Bottleneck::unlimited(5 * MS)
    };
    let mut wire = Wire::new(&path, 1);
    for _ in 0..10 {
        wire.depart(MS, &[0; 1_000]);
    }
    let mut arrived = Vec::new();
    for now in times {
        while let Some(packet) = wire.take_delivery(now) {
            arrived.push(packet.arrives);
        }
    }
    arrived
}

#[test]
fn late_call_costs_no_time_of_the_link() {
    for aqm in [
        Aqm::CoDel { ecn: false },
        Aqm::FqCoDel { ecn: false },
        Aqm::Pie { ecn: false },
        Aqm::DualPi2,
    ] {
        let expected: Vec<_> = (7..17).map(|ms| ms * MS).collect();
        assert_eq!(served(aqm, (0..20).map(|ms| ms * MS)), expected, "{aqm:?}");
        assert_eq!(served(aqm, [3 * MS, 60 * MS]), expected, "{aqm:?}");
    }
}

#[test]
fn packet_that_enters_after_a_late_call_finds_the_queue_as_it_is_then() {
    let path = Bottleneck {
        rate: vec![(Duration::ZERO, 8_000_000)],
        queue_bytes: 2_000,
        aqm: Some(Aqm::CoDel { ecn: false }),
        ..Bottleneck::unlimited(5 * MS)
    };
    let mut wire = Wire::new(&path, 1);
    for at in [0, 0, 0, 10, 10] {
        wire.depart(at * MS, &[0; 1_000]);
    }
    assert_eq!(wire.packets(), 5);
    let arrived = std::iter::from_fn(|| wire.take_delivery(60 * MS));
    let expected = [6, 7, 8, 16, 17].map(|ms| ms * MS);
    assert!(arrived.map(|packet| packet.arrives).eq(expected));
}

#[test]
fn packets_that_wait_at_an_aqm_are_on_the_way() {
    let path = Bottleneck {
        rate: vec![(Duration::ZERO, 8_000_000)],
        aqm: Some(Aqm::DualPi2),
        ..Bottleneck::unlimited(5 * MS)
    };
    let mut wire = Wire::new(&path, 1);
    for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0] {
        wire.depart_of(Duration::ZERO, &[0; 1_000], 0, ecn);
    }
    assert_eq!((wire.packets(), wire.bytes()), (3, 3_000));
}

#[test]
fn way_back_has_its_own_rate_and_queue() {
    let path = Bottleneck {
        ack_path: Some(AckPath { bits_per_second: 80_000, queue_bytes: 200, ack_bytes: 50 }),
        delay_steps: vec![(15 * MS, 9 * MS)],
        ..Bottleneck::unlimited(5 * MS)
    };
    let (down, up) = directions(&path);
    let (mut down, mut up) = (Wire::new(&down, 1), Wire::new(&up, 1));
    for _ in 0..3 {
        up.depart(Duration::ZERO, &[0; 100]);
        down.depart(Duration::ZERO, &[0; 100]);
    }
    assert_eq!(arrivals(&mut up), [15 * MS, 29 * MS]);
    assert_eq!(arrivals(&mut down), [5 * MS; 3]);
}
