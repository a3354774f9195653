//! The consistent transport: byte strings as events of a path.

use std::time::Duration;

use sluicegate_cc::Controller;

use super::bytes::Bytes;
use super::outcome::{Outcome, Violation};
use super::parameters::{mtu, path_change};
use super::path::Path;
use super::rules::Rules;

/// A step is one byte and what it asks for.
pub(super) fn run(
    controller: Box<dyn Controller>,
    rules: Rules,
    mtu: u64,
    bytes: &mut Bytes<'_>,
) -> Result<Outcome, Violation> {
    // From a microsecond to half a minute.
    let rtt = Duration::from_micros(1 << (bytes.byte() % 26));
    let mut path = Path::new(controller, rules, mtu);
    while !bytes.is_empty() {
        step(&mut path, rtt, bytes)?;
    }
    Ok(Outcome { calls: path.calls(), consistent: true, last: path.controller.snapshot() })
}

fn step(path: &mut Path, rtt: Duration, bytes: &mut Bytes<'_>) -> Result<(), Violation> {
    match bytes.byte() % 21 {
        0..=3 => rounds(path, rtt, bytes.two()),
        4 | 5 => path.fill(8),
        6 => path.send(usize::from(bytes.byte() % 16) + 1),
        7 => path.probe(),
        8 | 9 => {
            let count = usize::from(bytes.byte() % 64) + 1;
            path.event(0, |place| (place < count).then_some(true))
        }
        10 => {
            let acked = bytes.two();
            path.event(0, |place| bit(acked, place).then_some(true))
        }
        11 => {
            let lost = bytes.two();
            path.event(0, |place| bit(lost, place).then_some(false))
        }
        12 => {
            let (lost, acked) = (bytes.two(), bytes.two());
            path.event(u64::from(bytes.byte() % 4), |place| {
                (bit(lost, place) || bit(acked, place)).then(|| !bit(lost, place))
            })
        }
        13 => path.app_limited(),
        14 | 15 => {
            path.wait(bytes.time());
            Ok(())
        }
        16 => path.persistent_congestion(),
        17 => path.discard(usize::from(bytes.byte() % 8)),
        18 => path.acknowledge_late(usize::from(bytes.byte() % 4)),
        19 => path.change_path(path_change(bytes)),
        _ => path.set_mtu(mtu(bytes)),
    }
}

fn bit(mask: u16, place: usize) -> bool {
    place < 16 && mask >> place & 1 == 1
}

/// Up to eight round trips: part of a window leaves, and all of it is acknowledged in ACKs of equal size.
fn rounds(path: &mut Path, rtt: Duration, shape: u16) -> Result<(), Violation> {
    let per_ack = usize::from(shape & 7) + 1;
    let part = if shape & 0x8 == 0 { 8 } else { u64::from(shape >> 4 & 7) + 1 };
    let runs_dry = shape & 0x80 != 0;
    let loses_first = shape & 0x100 != 0;
    let ce_marks = u64::from(shape >> 9 & 1);
    let queues = shape & 0x400 != 0;
    for round in 0..=u32::from(shape >> 13) {
        path.fill(part)?;
        if runs_dry {
            path.app_limited()?;
        }
        path.wait(rtt);
        if queues {
            path.wait(rtt / 16 * (round + 1));
        }
        let acks = path.packets().div_ceil(per_ack);
        for ack in 0..acks {
            let loses = loses_first && round == 0 && ack == 0;
            path.event(if ack == 0 { ce_marks } else { 0 }, |place| {
                (place < per_ack).then_some(place > 0 || !loses)
            })?;
            path.wait(rtt / 256);
        }
    }
    Ok(())
}
