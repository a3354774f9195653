//! ECN counts that a client makes up (RFC 9000 §13.4.2.1).

use sluicegate_dataplane::Ecn;
use sluicegate_raw_client::varint;

use super::*;
use crate::ecn::{EcnCounters, EcnFailure};

const LENGTH: usize = 1_000_000;
const STEP: Duration = Duration::from_millis(10);

/// A client that acknowledges what arrives with counts of its own.
struct Liar {
    attack: Attack,
    peer: Peer,
}

impl Liar {
    fn new() -> Liar {
        let mut attack = Attack::new(|_| {});
        let mut peer = Peer::new(PEER, Setup::new(1));
        peer.client.policy.acks = false;
        attack.exchange(&mut peer);
        assert!(peer.client.is_established());
        Liar { attack, peer }
    }

    /// Acknowledges all packets of 1-RTT so far with counts of ECT(0), ECT(1) and CE.
    fn acknowledge(&mut self, counts: [u64; 3]) {
        let largest = self.peer.client.largest(PacketKind::OneRtt).0.unwrap();
        let fields = [0x3, largest, 0, 0, largest];
        let bytes = fields.into_iter().chain(counts).flat_map(varint).collect();
        self.peer.client.send(&[Frame::Raw(bytes)]);
        self.attack.pass(STEP, &mut self.peer);
    }

    fn counters(&self) -> &EcnCounters {
        &self.attack.endpoint().counters.ecn
    }
}

#[test]
fn counts_that_cannot_be_true_end_the_marking_and_not_the_connection() {
    for (counts, failure) in [
        ([1000, 0, 0], EcnFailure::TooMany),
        ([0, 0, u64::MAX >> 2], EcnFailure::TooMany),
        ([0, 1, 0], EcnFailure::Changed),
        ([0, 0, 0], EcnFailure::Cleared),
    ] {
        let mut liar = Liar::new();
        liar.acknowledge(counts);
        let found = liar.counters();
        assert_eq!((found.failed[failure], found.ce_reported), (1, 0), "{counts:?}");
        liar.peer.client.policy.acks = true;
        liar.attack.ask(&mut liar.peer, 0, LENGTH);
        liar.attack.pass(Duration::from_secs(2), &mut liar.peer);
        assert_eq!(liar.peer.response(0), (Some(200), LENGTH), "{counts:?}");
    }
}

#[test]
fn received_marks_are_counted_where_packets_are_new() {
    let mut liar = Liar::new();
    liar.peer.meta.ecn = Ecn::CongestionExperienced;
    liar.peer.client.send(&[Frame::Ping]);
    let datagrams = liar.peer.client.take_datagrams();
    assert_eq!(datagrams.len(), 1);
    for _ in 0..3 {
        liar.attack.ingest(&liar.peer.meta, datagrams[0].clone());
    }
    assert_eq!(liar.counters().ce_received, 1);
}
