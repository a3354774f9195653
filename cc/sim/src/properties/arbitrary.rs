//! The arbitrary transport: byte strings as reports that need not make sense.

use std::time::Duration;

use sluicegate_cc::{Controller, EcnCounts, Event, Packet, PacketState, Rtt, Sent, Time};

use super::bytes::Bytes;
use super::outcome::{Outcome, Violation};
use super::parameters::{mtu, path_change};
use super::rules::{Call, Rules};

/// Largest number that a field can carry: packet numbers as in QUIC, bytes in flight up to a terabyte.
const NUMBER_BITS: u32 = 62;
const IN_FLIGHT_BITS: u32 = 40;

pub(super) fn run(
    mut controller: Box<dyn Controller>,
    mut rules: Rules,
    bytes: &mut Bytes<'_>,
) -> Result<Outcome, Violation> {
    let mut latest = Time::ZERO;
    while !bytes.is_empty() {
        let now = time(bytes, latest);
        latest = latest.max(now);
        let name = call(controller.as_mut(), &mut rules, now, bytes);
        let call = Call { name, now: latest, acked: 0, signal: false };
        rules.check(controller.as_ref(), call)?;
    }
    Ok(Outcome { calls: rules.calls(), consistent: false, last: controller.snapshot() })
}

/// Mostly somewhat later; sometimes anywhere.
fn time(bytes: &mut Bytes<'_>, latest: Time) -> Time {
    if bytes.byte().is_multiple_of(16) {
        Time::from_nanos(bytes.magnitude(64))
    } else {
        latest + bytes.time()
    }
}

fn call(
    controller: &mut dyn Controller,
    rules: &mut Rules,
    now: Time,
    bytes: &mut Bytes<'_>,
) -> &'static str {
    match bytes.byte() % 16 {
        0..=4 => {
            let sent = Sent {
                packet_number: bytes.magnitude(NUMBER_BITS),
                bytes: u64::from(bytes.two()),
                in_flight_before: bytes.magnitude(IN_FLIGHT_BITS),
                has_data: !bytes.byte().is_multiple_of(4),
            };
            controller.on_sent(now, &sent);
            "on_sent"
        }
        5..=10 => {
            event(controller, now, bytes);
            "on_event"
        }
        11 => {
            controller.on_app_limited(now, bytes.magnitude(IN_FLIGHT_BITS));
            "on_app_limited"
        }
        12 => {
            controller.on_persistent_congestion(now);
            "on_persistent_congestion"
        }
        13 => {
            controller.on_discarded(now, bytes.magnitude(NUMBER_BITS));
            "on_discarded"
        }
        14 => {
            controller.on_path_changed(now, path_change(bytes));
            "on_path_changed"
        }
        _ => {
            let mtu = mtu(bytes);
            rules.note_mtu(mtu);
            controller.on_mtu(mtu);
            "on_mtu"
        }
    }
}

/// Returns a packet that need not have left, with a state that no controller need have returned.
fn packet(bytes: &mut Bytes<'_>) -> Packet {
    let (packet_number, time_sent) = (bytes.magnitude(NUMBER_BITS), bytes.magnitude(64));
    let (size, flags) = (u64::from(bytes.two()), bytes.byte());
    let mut state = PacketState::default();
    if flags & 1 == 1 {
        state = PacketState {
            delivered: bytes.magnitude(NUMBER_BITS),
            delivered_time: Time::from_nanos(bytes.magnitude(64)),
            first_sent_time: Time::from_nanos(bytes.magnitude(64)),
            lost: bytes.magnitude(NUMBER_BITS),
            tx_in_flight: bytes.magnitude(IN_FLIGHT_BITS),
            app_limited: flags & 2 == 2,
            probe_rtt: flags & 4 == 4,
        };
    }
    Packet { packet_number, time_sent: Time::from_nanos(time_sent), bytes: size, state }
}

fn packets(bytes: &mut Bytes<'_>, count: u8) -> Vec<Packet> {
    (0..count).map(|_| packet(bytes)).collect()
}

fn event(controller: &mut dyn Controller, now: Time, bytes: &mut Bytes<'_>) {
    let counts = bytes.byte();
    let acked = packets(bytes, counts % 8);
    let lost = packets(bytes, counts >> 3 & 3);
    let late = bytes.byte() % 2;
    let late_acked = packets(bytes, late);
    let mut duration = || Duration::from_nanos(bytes.magnitude(64));
    let rtt = Rtt {
        latest: duration(),
        smoothed: duration(),
        var: duration(),
        min: (counts & 0x20 != 0).then(&mut duration),
        max_ack_delay: duration(),
    };
    controller.on_event(&Event {
        now,
        acked: &acked,
        lost: &lost,
        late_acked: &late_acked,
        in_flight_before: bytes.magnitude(IN_FLIGHT_BITS),
        in_flight: bytes.magnitude(IN_FLIGHT_BITS),
        rtt,
        rtt_updated: counts & 0x40 != 0,
        ecn: if counts & 0x80 == 0 {
            EcnCounts::NONE
        } else {
            EcnCounts::ce(bytes.magnitude(NUMBER_BITS))
        },
        least_unacked: bytes.magnitude(NUMBER_BITS),
    });
}
