use super::*;
use crate::meta::Ecn;

/// A batch with everything that it changes.
struct Rig {
    batch: Batch,
    gso: Gso,
    counters: Counters,
    events: Events,
}

const LISTENER: ListenerId = ListenerId(3);

impl Rig {
    fn new(len: usize, segment: usize) -> Self {
        Self {
            batch: batch(len, segment),
            gso: Gso::new(true),
            counters: Counters::default(),
            events: Events::new(),
        }
    }

    fn with(&mut self, step: impl FnOnce(&mut Batch, &mut Effects<'_>) -> Progress) -> Progress {
        let mut effects =
            Effects { gso: &mut self.gso, counters: &mut self.counters, events: &mut self.events };
        step(&mut self.batch, &mut effects)
    }

    fn refuse(&mut self, code: i32) -> Progress {
        self.with(|batch, effects| batch.on_error(code, effects))
    }

    /// Sends everything and returns the lengths of the messages.
    fn drain(&mut self) -> Vec<usize> {
        let mut lens = Vec::new();
        for _ in 0..1000 {
            lens.push(self.batch.range().len());
            if self.with(Batch::on_sent) == Progress::Finished {
                return lens;
            }
        }
        panic!("never finished");
    }
}

fn peer() -> std::net::SocketAddr {
    "127.0.0.1:9".parse().unwrap()
}

fn batch(len: usize, segment: usize) -> Batch {
    let meta = TxMeta { peer: peer(), local: None, ecn: Ecn::NotCapable, departure: None };
    let layout = Layout { buffer: 0, start: 100, len, segment };
    Batch::new(LISTENER, meta, layout)
}

#[test]
fn a_batch_is_one_message() {
    let mut rig = Rig::new(32_000, 500);
    assert_eq!(rig.batch.range(), 100..32_100);
    assert_eq!(rig.drain(), [32_000]);
    assert_eq!((rig.counters.tx_messages, rig.counters.tx_datagrams), (1, 64));
    assert_eq!(rig.counters.tx_bytes, 32_000);
}

#[test]
fn an_empty_datagram_is_one_message() {
    let mut rig = Rig::new(0, 0);
    assert_eq!(rig.drain(), [0]);
    assert_eq!((rig.counters.tx_messages, rig.counters.tx_datagrams), (1, 1));
}

#[test]
fn gso_that_the_device_refuses_is_probed_again_later() {
    let mut rig = Rig::new(3000, 1000);
    assert_eq!(rig.refuse(libc::EIO), Progress::Ready);
    assert_eq!(rig.drain(), [1000, 1000, 1000]);
    assert!(!rig.gso.is_usable());
    assert_eq!(rig.counters.tx_gso_fallbacks, 1);
    for _ in 0..FIRST_PAUSE {
        assert!(!rig.gso.is_usable() || rig.counters.tx_datagrams > 1000);
        rig.batch = batch(1000, 1000);
        rig.drain();
    }
    assert!(rig.gso.is_usable());
    // Refused again, it is left alone for longer; a batch that passes shortens the pause again.
    rig.batch = batch(3000, 1000);
    let _ = rig.refuse(libc::EIO);
    assert_eq!(rig.gso.pause, 2 * FIRST_PAUSE);
    rig.gso.pause = 0;
    rig.batch = batch(3000, 1000);
    rig.drain();
    rig.batch = batch(3000, 1000);
    let _ = rig.refuse(libc::EIO);
    assert_eq!(rig.gso.pause, FIRST_PAUSE);
}

#[test]
fn refusals_of_batches_from_before_the_pause_do_not_lengthen_it() {
    let mut rig = Rig::new(3000, 1000);
    for _ in 0..12 {
        rig.batch = batch(3000, 1000);
        let _ = rig.refuse(libc::EIO);
    }
    assert_eq!((rig.gso.pause, rig.gso.next_pause), (FIRST_PAUSE, 2 * FIRST_PAUSE));
}

#[test]
fn datagrams_too_large_for_the_path_do_not_count_against_gso() {
    let mut rig = Rig::new(3000, 1500);
    let _ = rig.refuse(libc::EINVAL);
    assert_eq!(rig.refuse(libc::EMSGSIZE), Progress::Ready);
    assert_eq!(rig.refuse(libc::EMSGSIZE), Progress::Finished);
    assert!(rig.gso.is_usable());
    assert_eq!((rig.counters.tx_errors, rig.counters.tx_messages), (1, 0));
    let too_big = Event::TooBig { listener: LISTENER, peer: peer(), size: 1500 };
    assert_eq!(rig.events.take(), Some(too_big));
    assert_eq!(rig.events.take(), None);
}

#[test]
fn gso_refused_where_single_datagrams_pass_is_paused() {
    let mut rig = Rig::new(2000, 1000);
    let _ = rig.refuse(libc::EINVAL);
    rig.drain();
    assert!(!rig.gso.is_usable());
}

#[test]
fn a_full_socket_keeps_the_batch() {
    let mut rig = Rig::new(100, 100);
    assert_eq!(rig.refuse(libc::EAGAIN), Progress::Blocked);
    assert_eq!(rig.batch.range(), 100..200);
    assert_eq!(rig.counters, Counters::default());
}

#[test]
fn an_unreachable_peer_is_reported_and_its_batch_dropped() {
    let mut rig = Rig::new(2000, 1000);
    assert_eq!(rig.refuse(libc::EHOSTUNREACH), Progress::Finished);
    let unreachable = Event::Unreachable { listener: LISTENER, peer: peer() };
    assert_eq!(rig.events.take(), Some(unreachable));
    assert_eq!(rig.counters.tx_errors, 1);
}
