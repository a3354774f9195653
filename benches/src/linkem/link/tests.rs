//! The link in virtual time: rate, delay, queue, loss, marks.

use std::time::Duration;

use sluicegate_sim::{Aqm, Bottleneck, LossWindow, Reorder};

use super::{End, INTERVAL, Link, MOST_FLOWS};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MTU: usize = 1_500;

/// Returns an IPv4 packet of UDP with that ECN field.
fn packet(length: usize, ecn: u8) -> Vec<u8> {
    let mut packet = vec![0; length];
    (packet[0], packet[1], packet[9]) = (0x45, ecn, 17);
    packet
}

fn link(down: &Bottleneck) -> Link {
    Link::new(down, &Bottleneck::unlimited(down.delay), 1)
}

/// Lets a packet enter at each of these times and returns when each of those that arrive does.
fn arrivals(link: &mut Link, times: impl IntoIterator<Item = Duration>) -> Vec<Duration> {
    let mut arrived = Vec::new();
    let mut leave = |link: &mut Link, until: Option<Duration>| {
        while let Some(due) = link.next_due() {
            if until.is_some_and(|until| due > until) {
                break;
            }
            let down = link.towards_mut(End::Client);
            let bytes = down.take_due(due).expect("due");
            down.recycle(bytes);
            arrived.push(due);
        }
    };
    for now in times {
        leave(link, Some(now));
        link.towards_mut(End::Client).enter(now, &packet(MTU, 0));
    }
    leave(link, None);
    arrived
}

#[test]
fn packets_leave_at_the_rate_to_a_thousandth() {
    for rate in [1_000_000, 20_000_000, 100_000_000, 1_000_000_000] {
        let path = Bottleneck::new(rate, 20 * MS, 1.0);
        let mut link = link(&path);
        // A fifth more than the rate, for ten seconds.
        let spacing = Duration::from_secs_f64(MTU as f64 * 8.0 / rate as f64 / 1.2);
        let times = (0..).map(|n| spacing * n);
        let arrived = arrivals(&mut link, times.take_while(|at| *at < 10 * SECOND));
        let down = link.towards(End::Client);
        let ratio = down.tally().rate() / rate as f64;
        // The first packet's own time is not between the first delivery and the last.
        let first = arrived.len() as f64 / (arrived.len() - 1) as f64;
        assert!((ratio / first - 1.0).abs() < 1e-3, "{rate}: {ratio}");
        assert_eq!(down.tally().delivered, arrived.len() as u64);
        assert!(down.dropped() > 0, "{rate}");
    }
}

#[test]
fn delay_is_exact_without_a_queue() {
    let mut link = link(&Bottleneck::unlimited(25 * MS));
    let times: Vec<_> = (0..100).map(|n| n * MS).collect();
    let arrived = arrivals(&mut link, times.clone());
    let expected: Vec<_> = times.iter().map(|at| *at + 25 * MS).collect();
    assert_eq!(arrived, expected);
    let tally = link.towards(End::Client).tally();
    assert_eq!(tally.queueing.max(), Some(Duration::ZERO));
    assert_eq!(tally.late.max(), Some(Duration::ZERO));
}

#[test]
fn queue_has_its_bound() {
    // 10 Mbit/s: 1,500 bytes take 1.2 ms, so ten packets wait for 12 ms at most.
    let path = Bottleneck { queue_bytes: 15_000, ..Bottleneck::new(10_000_000, 20 * MS, 1.0) };
    let mut link = link(&path);
    let arrived = arrivals(&mut link, vec![Duration::ZERO; 50]);
    assert_eq!(arrived.len(), 10);
    let down = link.towards(End::Client);
    assert_eq!(down.dropped(), 40);
    assert_eq!(down.tally().queueing.max(), Some(12 * MS));
}

#[test]
fn loss_has_its_share_within_its_time() {
    let window = LossWindow { from: Duration::ZERO, until: SECOND, probability: 0.3 };
    let path = Bottleneck { loss: vec![window], ..Bottleneck::unlimited(MS) };
    let mut link = link(&path);
    let times = (0..20_000).map(|n| n * MS / 10);
    let arrived = arrivals(&mut link, times);
    let lost = link.towards(End::Client).dropped();
    assert!((2_800..3_200).contains(&lost), "{lost}");
    let after = arrived.iter().filter(|at| **at >= SECOND + MS).count();
    assert_eq!(after, 10_000);
}

#[test]
fn directions_do_not_share_a_queue() {
    let path = Bottleneck::new(1_000_000, 20 * MS, 1.0);
    let mut link = link(&path);
    link.towards_mut(End::Client).enter(Duration::ZERO, &packet(MTU, 0));
    link.towards_mut(End::Server).enter(Duration::ZERO, &packet(MTU, 0));
    assert_eq!(link.next_due(), Some(10 * MS));
    assert!(link.towards_mut(End::Client).take_due(10 * MS).is_none());
    assert!(link.towards_mut(End::Server).take_due(10 * MS).is_some());
    assert_eq!(link.next_due(), Some(22 * MS));
}

#[test]
fn overtaken_packets_come_after_later_ones() {
    let path = Bottleneck {
        reorder: Some(Reorder { probability: 0.5, by: 10 * MS }),
        ..Bottleneck::unlimited(MS)
    };
    let mut link = link(&path);
    let arrived = arrivals(&mut link, (0..100).map(|n| n * MS));
    assert_eq!(arrived.len(), 100);
    assert!(arrived.is_sorted());
    let queueing = &link.towards(End::Client).tally().queueing;
    assert_eq!(queueing.max(), Some(10 * MS));
}

#[test]
fn marks_stand_in_packets_that_can_carry_them() {
    let path = Bottleneck {
        ce_above: Some(1),
        queue_bytes: u64::MAX,
        ..Bottleneck::new(1_000_000, 20 * MS, 1.0)
    };
    let mut link = link(&path);
    let down = link.towards_mut(End::Client);
    for ecn in [0b10, 0b10, 0, 0b01] {
        down.enter(Duration::ZERO, &packet(100, ecn));
    }
    let mut fields = Vec::new();
    while let Some(bytes) = down.take_due(SECOND) {
        fields.push(bytes[1] & 0b11);
    }
    assert_eq!(fields, [0b10, 0b11, 0, 0b11]);
    assert_eq!(down.tally().marked, 2);
}

/// Returns an IPv4 packet of UDP from this port, with that ECN field.
fn packet_from(port: u8, ecn: u8) -> Vec<u8> {
    let mut packet = packet(1_000, ecn);
    packet[21] = port;
    packet
}

/// Returns a link of 8 Mbit/s, where 1,000 bytes take a millisecond, with this AQM.
fn managed(aqm: Aqm) -> Link {
    link(&Bottleneck {
        aqm: Some(aqm),
        queue_bytes: u64::MAX,
        ..Bottleneck::new(8_000_000, 10 * MS, 1.0)
    })
}

#[test]
fn flows_have_queues_of_their_own_where_the_aqm_gives_them() {
    for (aqm, most_ahead) in [(Aqm::FqCoDel { ecn: false }, 3), (Aqm::CoDel { ecn: false }, 50)] {
        let mut link = managed(aqm);
        let down = link.towards_mut(End::Client);
        for port in [[1; 50], [2; 50]].concat() {
            down.enter(Duration::ZERO, &packet_from(port, 0));
        }
        let mut ports = Vec::new();
        while let Some(due) = link.next_due() {
            let packet = link.towards_mut(End::Client).take_due(due);
            ports.extend(packet.map(|packet| packet[21]));
        }
        let ahead = ports.iter().position(|port| *port == 2);
        assert!(ahead.is_some_and(|ahead| ahead <= most_ahead), "{aqm:?}: {ports:?}");
        assert_eq!(ahead.is_some_and(|ahead| ahead > 3), most_ahead > 3);
    }
}

#[test]
fn aqm_marks_packets_that_can_carry_it_and_drops_others() {
    for aqm in
        [Aqm::CoDel { ecn: true }, Aqm::FqCoDel { ecn: true }, Aqm::Pie { ecn: true }, Aqm::DualPi2]
    {
        for ecn in [0b10, 0b01, 0] {
            let mut link = managed(aqm);
            let mut marked = 0;
            let mut leave = |link: &mut Link, until: Duration| {
                while let Some(due) = link.next_due().filter(|due| *due <= until) {
                    let packet = link.towards_mut(End::Client).take_due(due);
                    marked += u64::from(packet.is_some_and(|packet| packet[1] & 0b11 == 0b11));
                }
            };
            // A twentieth more than the rate, for five seconds.
            for number in 0..5_250 {
                let now = SECOND * number / 1_050;
                leave(&mut link, now);
                let down = link.towards_mut(End::Client);
                down.enter(now, &packet_from(1, ecn));
            }
            leave(&mut link, 60 * SECOND);
            let down = link.towards(End::Client);
            assert_eq!(marked > 0, ecn != 0, "{aqm:?} {ecn}: {marked}");
            assert_eq!(down.tally().marked, marked);
            assert!(ecn != 0 || down.dropped() > 0, "{aqm:?}");
        }
    }
}

#[test]
fn packets_that_wait_at_an_aqm_are_not_dropped() {
    let mut link = managed(Aqm::CoDel { ecn: false });
    let down = link.towards_mut(End::Client);
    for _ in 0..10 {
        down.enter(Duration::ZERO, &packet_from(1, 0));
    }
    assert!(down.take_due(8 * MS).is_some());
    assert_eq!((down.tally().delivered, down.dropped()), (1, 0));
}

#[test]
fn payloads_are_not_taken_for_headers() {
    let path = Bottleneck {
        ce_above: Some(1),
        queue_bytes: u64::MAX,
        ..Bottleneck::new(1_000_000, 20 * MS, 1.0)
    };
    let mut link = link(&path).of_payloads();
    let down = link.towards_mut(End::Client);
    // The short header of QUIC begins like the header of IPv4.
    let packet = packet_from(1, 0b10);
    for _ in 0..2 {
        down.enter(Duration::ZERO, &packet);
    }
    while let Some(delivered) = down.take_due(SECOND) {
        assert_eq!(delivered, packet);
    }
    assert_eq!((down.tally().delivered, down.tally().marked), (2, 0));
    assert!(down.tally().flows.is_empty());
}

#[test]
fn bytes_of_flows_are_counted_by_interval() {
    let mut link = link(&Bottleneck::unlimited(Duration::ZERO));
    let _ = arrivals(&mut link, [Duration::ZERO, INTERVAL, INTERVAL * 3]);
    let flows = &link.towards(End::Client).tally().flows;
    let counted: Vec<_> = flows.values().collect();
    assert_eq!(counted, [&vec![1_500, 1_500, 0, 1_500]]);
}

#[test]
fn lateness_is_the_time_past_what_was_due() {
    let mut link = link(&Bottleneck::unlimited(MS));
    let down = link.towards_mut(End::Client);
    down.enter(Duration::ZERO, &packet(100, 0));
    assert!(down.take_due(4 * MS).is_some());
    assert_eq!(down.tally().late.max(), Some(3 * MS));
}

#[test]
fn flows_beyond_those_told_apart_take_no_more_memory() {
    let mut link = link(&Bottleneck {
        aqm: Some(Aqm::FqCoDel { ecn: false }),
        ..Bottleneck::new(1_000_000_000, MS, 1.0)
    });
    let down = link.towards_mut(End::Client);
    for number in 0..5_000u16 {
        let mut bytes = packet(MTU, 0);
        bytes[20..22].copy_from_slice(&number.to_be_bytes());
        let now = MS * u32::from(number);
        down.enter(now, &bytes);
        while let Some(taken) = down.take_due(now) {
            down.recycle(taken);
        }
    }
    assert!(down.tally().delivered > 4_900);
    assert_eq!(down.numbers.len(), MOST_FLOWS);
    assert_eq!(down.tally().flows.len(), MOST_FLOWS);
}
