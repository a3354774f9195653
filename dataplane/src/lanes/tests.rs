//! Lanes over buffers that nobody reads; the test acts as the kernel.

use super::*;
use crate::meta::Ecn;

/// Lanes with what they change.
struct Rig {
    lanes: Lanes,
    counters: Counters,
    events: Events,
}

impl Rig {
    /// `lanes` lanes of which each can hold `share` buffers.
    fn new(lanes: u16, share: usize) -> Self {
        let listeners = (0..lanes).map(|id| (ListenerId(id), true));
        let buffers = Lanes::buffers(share, usize::from(lanes));
        Self {
            lanes: Lanes::new(buffers, listeners),
            counters: Counters::default(),
            events: Events::new(),
        }
    }

    /// Writes a datagram of `len` bytes. Returns its place, or `None` where there is no room.
    fn write(&mut self, lane: usize, len: usize) -> Option<Place> {
        let meta = TxMeta {
            peer: "192.0.2.1:9".parse().unwrap(),
            local: None,
            ecn: Ecn::NotCapable,
            departure: None,
        };
        let place = self.lanes.room(lane, 1472)?;
        self.lanes.commit(len, &meta, &mut self.counters);
        Some(place)
    }

    /// Closes the lane's open batch and returns the ranges of its queue.
    fn queue(&mut self, lane: usize) -> Vec<Range<usize>> {
        self.lanes.close(lane);
        let count = self.lanes.queued(lane);
        let batches = (0..count).map(|number| self.lanes.batch(lane, number));
        batches.map(|batch| batch.unwrap().range()).collect()
    }

    fn settle(&mut self, lane: usize, keep: Keep, outcome: Result<(), i32>) {
        let Self { lanes, counters, events } = self;
        lanes.settle(lane, keep, outcome, counters, events);
    }
}

#[test]
fn short_packet_ends_gso_batch_and_longer_one_opens_the_next() {
    let mut rig = Rig::new(1, 2);
    for len in [1200, 1200, 300, 300, 1400, 1400] {
        rig.write(0, len);
    }
    // One behind the other, without a gap.
    assert_eq!(rig.queue(0), [0..2700, 2700..3000, 3000..5800]);
}

#[test]
fn a_batch_keeps_to_64_datagrams_and_to_the_largest_payload() {
    let mut rig = Rig::new(1, 2);
    for _ in 0..65 {
        rig.write(0, 100);
    }
    assert_eq!(rig.queue(0), [0..6400, 6400..6500]);
    let mut rig = Rig::new(1, 3);
    for _ in 0..46 {
        rig.write(0, 1472);
    }
    // What does not fit into the buffer opens a batch in the next.
    assert_eq!(rig.queue(0), [0..44 * 1472, 0..2 * 1472]);
}

#[test]
fn a_blocked_lane_keeps_its_buffers_and_leaves_one_to_each_other() {
    for share in [2, 8] {
        let mut rig = Rig::new(3, share);
        let mut held = 0;
        while rig.write(0, 1472).is_some() {
            held += 1472;
        }
        assert!(held > (share - 1) * MAX_TRANSMIT);
        rig.lanes.close(0);
        rig.settle(0, Keep::First, Err(libc::EAGAIN));
        assert!(rig.lanes.is_blocked(0) && !rig.lanes.can_send());
        for lane in [1, 2] {
            // As often as it likes, if what it sends leaves.
            for _ in 0..500 {
                rig.write(lane, 1472).unwrap();
                rig.lanes.close(lane);
                rig.settle(lane, Keep::First, Ok(()));
            }
        }
        rig.lanes.on_writable(0);
        while rig.lanes.can_send() {
            rig.settle(0, Keep::First, Ok(()));
        }
        assert_eq!(rig.counters.tx_bytes, held as u64 + 1000 * 1472);
        assert!(rig.write(0, 1472).is_some());
    }
}

#[test]
fn no_two_batches_under_way_share_bytes() {
    let mut rig = Rig::new(1, 2);
    let mut under_way: VecDeque<(usize, Range<usize>)> = VecDeque::new();
    for step in 0..2000 {
        let Some(place) = rig.write(0, 1 + step * 37 % 1472) else {
            rig.lanes.close(0);
            while rig.lanes.queued(0) > 2 {
                rig.settle(0, Keep::First, Ok(()));
            }
            under_way = (0..rig.lanes.queued(0))
                .map(|number| rig.lanes.batch(0, number).unwrap())
                .map(|batch| (batch.buffer(), batch.range()))
                .collect();
            continue;
        };
        let start = place.range.start;
        for (buffer, range) in &under_way {
            assert!(*buffer != place.buffer || !range.contains(&start), "step {step}");
        }
    }
    assert!(rig.counters.tx_datagrams > 500);
}

#[test]
fn what_was_sent_at_once_and_not_finished_keeps_its_order() {
    let mut rig = Rig::new(1, 2);
    for len in [100, 200, 300, 400, 500] {
        rig.write(0, len);
    }
    let before = rig.queue(0);
    // The first four were submitted: two failed for a while, one was sent, one is to be sent again.
    rig.settle(0, Keep::Last, Err(libc::EINTR));
    rig.settle(0, Keep::Last, Ok(()));
    rig.settle(0, Keep::Last, Err(libc::EAGAIN));
    rig.settle(0, Keep::Last, Err(libc::EINTR));
    rig.lanes.rotate(0, 1);
    rig.lanes.on_writable(0);
    let expected = [0, 2, 3, 4].map(|number: usize| before[number].clone());
    assert_eq!(rig.queue(0), expected);
}

#[test]
fn a_broken_socket_is_reported_once() {
    let mut rig = Rig::new(2, 2);
    for _ in 0..3 {
        rig.write(1, 10);
        rig.lanes.close(1);
        rig.settle(1, Keep::First, Err(libc::EBADF));
    }
    let listener = ListenerId(1);
    assert_eq!(rig.events.take(), Some(Event::PortDown { listener }));
    assert_eq!(rig.events.take(), None);
    assert_eq!(rig.counters.tx_errors, 3);
}
