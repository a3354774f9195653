use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

const SIZE: u64 = 1_000;

/// A sampler with the packets in flight.
#[derive(Default)]
struct Path {
    sampler: Sampler,
    packets: BTreeMap<u64, Packet>,
    next: u64,
    in_flight: u64,
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

impl Path {
    fn send(&mut self, ms: u64, packets: u64) {
        for _ in 0..packets {
            let sent = Sent {
                packet_number: self.next,
                bytes: SIZE,
                in_flight_before: self.in_flight,
                has_data: true,
            };
            let packet = Packet {
                packet_number: self.next,
                time_sent: at(ms),
                bytes: SIZE,
                state: self.sampler.on_sent(at(ms), &sent),
            };
            self.packets.insert(self.next, packet);
            self.next += 1;
            self.in_flight += SIZE;
        }
    }

    /// Takes a packet that is still in flight.
    fn take(&mut self, number: u64) -> Packet {
        self.in_flight -= SIZE;
        self.packets.remove(&number).expect("in flight")
    }

    fn acked(&mut self, ms: u64, number: u64) {
        let packet = self.take(number);
        self.sampler.on_acked(at(ms), &packet);
    }

    fn ack(&mut self, ms: u64, numbers: std::ops::Range<u64>) -> RateSample {
        numbers.for_each(|number| self.acked(ms, number));
        self.sampler.sample(0).expect("something was acknowledged")
    }

    fn lose(&mut self, number: u64) -> LostPacket {
        let packet = self.take(number);
        self.sampler.on_lost(&packet).expect("of this path")
    }
}

#[test]
fn rate_is_what_was_delivered_over_the_round_trip() {
    let mut path = Path::default();
    path.send(0, 10);
    let sample = path.ack(100, 0..10);
    assert_eq!(sample.delivered, 10_000);
    assert_eq!(sample.rate, Some(100_000));
    assert_eq!((sample.newly_acked, sample.prior_delivered), (10_000, 0));
    assert_eq!((sample.tx_in_flight, sample.lost), (10_000, 0));
}

#[test]
fn compressed_acks_do_not_raise_the_rate_above_the_sending_rate() {
    let mut path = Path::default();
    for ms in 0..100 {
        path.send(ms, 1);
    }
    let mut highest = 0;
    path.ack(150, 0..1);
    for number in 1..100 {
        let sample = path.ack(150 + number / 50, number..number + 1);
        highest = highest.max(sample.rate.expect("long enough"));
    }
    assert!(highest <= 1_000_000 + 50_000, "{highest}");
}

#[test]
fn interval_shorter_than_any_round_trip_shows_no_rate() {
    let mut path = Path::default();
    path.send(0, 2);
    path.acked(5, 0);
    let sample = path.sampler.sample(10_000_000).expect("acknowledged");
    assert_eq!((sample.rate, sample.delivered), (None, SIZE));
    path.acked(10, 1);
    let sample = path.sampler.sample(10_000_000).expect("acknowledged");
    assert_eq!(sample.rate, Some(200_000));
}

#[test]
fn no_time_at_all_shows_no_rate() {
    let mut path = Path::default();
    path.send(3, 1);
    assert_eq!(path.ack(3, 0..1).rate, None);
}

#[test]
fn empty_path_begins_its_interval_at_the_next_packet() {
    let mut path = Path::default();
    path.send(0, 10);
    path.ack(100, 0..10);
    path.send(10_000, 10);
    assert_eq!(path.ack(10_100, 10..20).rate, Some(100_000));
}

#[test]
fn newest_packet_of_an_ack_makes_the_sample() {
    let mut path = Path::default();
    path.send(0, 1);
    path.send(60, 1);
    path.ack(100, 0..1);
    path.send(100, 1);
    let sample = path.ack(200, 1..3);
    assert_eq!(sample.prior_delivered, SIZE);
    assert_eq!(sample.delivered, 2 * SIZE);
    assert_eq!(sample.rate, Some(20_000));
}

#[test]
fn samples_are_application_limited_until_a_packet_sent_after_the_gap_is_acknowledged() {
    let mut path = Path::default();
    path.send(0, 2);
    path.sampler.mark_app_limited();
    path.send(10, 2);
    assert!(!path.ack(100, 0..2).app_limited, "sent before the gap");
    assert!(path.sampler.is_app_limited());
    assert!(path.ack(110, 2..4).app_limited);
    assert!(!path.sampler.is_app_limited());
    path.send(120, 1);
    assert!(!path.ack(220, 4..5).app_limited);
}

#[test]
fn gap_leaves_though_all_that_was_in_flight_with_it_is_lost() {
    let mut path = Path::default();
    path.send(0, 5);
    path.sampler.mark_app_limited();
    (0..5).for_each(|number| {
        path.lose(number);
    });
    path.send(200, 1);
    path.ack(300, 5..6);
    assert!(!path.sampler.is_app_limited());
}

#[test]
fn gap_leaves_though_all_that_was_in_flight_with_it_is_discarded() {
    let mut path = Path::default();
    path.send(0, 5);
    path.sampler.mark_app_limited();
    (0..5).for_each(|number| {
        path.take(number);
    });
    path.send(200, 1);
    path.ack(300, 5..6);
    assert_eq!(path.sampler.delivered(), SIZE);
    assert!(!path.sampler.is_app_limited());
}

#[test]
fn gap_of_probe_rtt_differs_from_the_applications() {
    let mut path = Path::default();
    path.sampler.mark_probe_rtt();
    path.send(0, 1);
    let sample = path.ack(10, 0..1);
    assert!(sample.app_limited && sample.probe_rtt);
    path.sampler.mark_probe_rtt();
    path.sampler.mark_app_limited();
    path.send(20, 1);
    let sample = path.ack(30, 1..2);
    assert!(sample.app_limited && !sample.probe_rtt);
}

#[test]
fn losses_count_from_the_packets_departure() {
    let mut path = Path::default();
    path.send(0, 10);
    assert_eq!(path.lose(2).lost, SIZE);
    let second = path.lose(5);
    assert_eq!((second.lost, second.tx_in_flight), (2 * SIZE, 6 * SIZE));
    path.send(50, 1);
    assert_eq!(path.ack(100, 9..10).lost, 2 * SIZE);
    assert_eq!(path.ack(150, 10..11).lost, 0);
}

#[test]
fn late_packet_hides_no_real_loss() {
    let mut path = Path::default();
    path.send(0, 10);
    let late = path.packets.get(&2).copied().expect("in flight");
    assert_eq!(path.lose(2).lost, SIZE);
    path.send(50, 2);
    path.sampler.on_late_acked(at(60), &late);
    assert_eq!(path.sampler.delivered(), SIZE);
    assert_eq!(path.lose(10).lost, SIZE);
    assert_eq!(path.ack(100, 11..12).lost, SIZE);
}

#[test]
fn packets_of_another_path_are_ignored() {
    let mut path = Path::default();
    path.send(0, 3);
    path.sampler = Sampler::beginning_at(3);
    path.acked(100, 0);
    assert_eq!(path.sampler.sample(0), None);
    let lost = path.take(1);
    assert_eq!(path.sampler.on_lost(&lost), None);
    path.send(100, 1);
    assert_eq!(path.ack(200, 3..4).delivered, SIZE);
}
