//! Each fault does what it says, and nothing else happens.

use std::net::SocketAddr;

use super::*;
use crate::memory::{Memory, pair};
use crate::{Ecn, ListenerId};

const SEED: u64 = 0x5eed;
const COUNT: u32 = 2000;
const SIZE: usize = 50;

fn addresses() -> (SocketAddr, SocketAddr) {
    ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap())
}

fn datagram(number: u32) -> Vec<u8> {
    let mut bytes = vec![0x3c; SIZE];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Sends [`COUNT`] numbered datagrams, four at a time, and returns what arrives.
fn run(sender: &mut impl Dataplane, receiver: &mut impl Dataplane) -> Vec<Vec<u8>> {
    let meta = TxMeta { peer: addresses().1, local: None, ecn: Ecn::Ect0, departure: None };
    let mut next = 0;
    let mut arrived = Vec::new();
    for _ in 0..COUNT {
        sender
            .transmit(Budget::of_datagrams(4), |out| {
                while next < COUNT
                    && let Ok(room) = out.room(ListenerId(0), SIZE)
                {
                    room.copy_from_slice(&datagram(next));
                    out.commit(SIZE, &meta);
                    next += 1;
                }
            })
            .unwrap();
        receiver
            .receive(Budget::of_datagrams(100), |meta, bytes| {
                assert_eq!((meta.peer, meta.ecn), (addresses().0, Ecn::Ect0));
                arrived.push(bytes.to_vec());
            })
            .unwrap();
        receiver.wait(None).unwrap();
    }
    assert_eq!(next, COUNT);
    arrived
}

/// Arrivals with `faults` on the way in, then with the same on the way out, each with its fates.
fn both(faults: Faults, seed: u64) -> [(Vec<Vec<u8>>, Fates); 2] {
    let none = Faults::default();
    let (a, b) = addresses();
    let (mut sender, receiver): (Memory, Memory) = pair(a, b);
    let mut receiver = Fault::new(receiver, faults, none, seed);
    let inward = (run(&mut sender, &mut receiver), receiver.rx_fates());
    let (sender, mut receiver) = pair(a, b);
    let mut sender = Fault::new(sender, none, faults, seed);
    let outward = (run(&mut sender, &mut receiver), sender.tx_fates());
    [inward, outward]
}

fn sent() -> Vec<Vec<u8>> {
    (0..COUNT).map(datagram).collect()
}

#[test]
fn without_faults_everything_passes_unchanged() {
    for (arrived, fates) in both(Faults::default(), SEED) {
        assert_eq!(arrived, sent());
        let expected = Fates { seen: COUNT.into(), ..Fates::default() };
        assert_eq!(fates, expected);
    }
}

#[test]
fn loss_takes_about_its_share_and_keeps_the_order() {
    let faults = Faults { loss: 250, ..Faults::default() };
    for (arrived, fates) in both(faults, SEED) {
        assert_eq!(arrived.len() as u64, u64::from(COUNT) - fates.lost);
        assert!((400..600).contains(&fates.lost), "{fates:?} with seed {SEED}");
        assert!(
            arrived.is_sorted_by_key(|bytes| u32::from_le_bytes(*bytes.first_chunk().unwrap()))
        );
    }
}

#[test]
fn duplicates_are_the_same_datagrams_again() {
    let faults = Faults { duplicate: 100, ..Faults::default() };
    for (mut arrived, fates) in both(faults, SEED) {
        assert!(fates.duplicated > 0);
        assert_eq!(arrived.len() as u64, u64::from(COUNT) + fates.duplicated);
        arrived.dedup();
        assert_eq!(arrived, sent());
    }
}

#[test]
fn reordering_loses_nothing_and_delays_no_further_than_said() {
    let faults = Faults { reorder: 100, ..Faults::default() };
    for (mut arrived, fates) in both(faults, SEED) {
        assert!(fates.reordered > 0);
        assert_ne!(arrived, sent());
        for (place, bytes) in arrived.iter().enumerate() {
            let number = u32::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
            assert!(place <= number + 8 && number <= place + 8, "{number} at {place}, seed {SEED}");
        }
        arrived.sort_by_key(|bytes| u32::from_le_bytes(*bytes.first_chunk().unwrap()));
        assert_eq!(arrived, sent());
    }
}

#[test]
fn corruption_flips_one_bit_and_truncation_keeps_a_beginning() {
    let faults = Faults { corrupt: 200, ..Faults::default() };
    for (arrived, fates) in both(faults, SEED) {
        let bits = |(a, b): (&Vec<u8>, &Vec<u8>)| -> u32 {
            a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
        };
        let flipped: Vec<u32> = arrived.iter().zip(&sent()).map(bits).collect();
        assert!(flipped.iter().all(|bits| *bits <= 1));
        assert_eq!(u64::from(flipped.iter().sum::<u32>()), fates.corrupted);
        assert!(fates.corrupted > 0);
    }
    let faults = Faults { truncate: 200, ..Faults::default() };
    for (arrived, fates) in both(faults, SEED) {
        let pairs = || arrived.iter().zip(sent());
        assert!(pairs().all(|(cut, whole)| !cut.is_empty() && whole.starts_with(cut)));
        let cut = pairs().filter(|(cut, whole)| cut.len() < whole.len()).count() as u64;
        assert_eq!((cut, cut > 0), (fates.truncated, true));
    }
}

#[test]
fn a_seed_decides() {
    let faults = Faults { loss: 100, duplicate: 100, reorder: 100, corrupt: 100, truncate: 100 };
    assert_eq!(both(faults, 1), both(faults, 1));
    assert_ne!(both(faults, 1)[0].0, both(faults, 2)[0].0);
}
