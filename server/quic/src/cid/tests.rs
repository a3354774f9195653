//! Properties of every scheme, and a test double: a scheme that differs from the server's own.

mod configured;
mod decoder;

use std::collections::HashSet;

use sluicegate_base::entropy::Entropy;
use sluicegate_base::secrets::GENERATIONS;
use sluicegate_dataplane::{CidMark, Steering};

use super::*;

/// Stands for schemes that the kernel cannot read: only who has the key, here a byte in the ID itself, can read them.
struct Encrypted;

const KEYED: usize = 11;

impl CidScheme for Encrypted {
    fn cid_len(&self) -> usize {
        KEYED
    }

    fn generate(&mut self, worker: u8, generation: u8, entropy: &mut Entropy) -> ConnectionId {
        let mut id: [u8; KEYED] = entropy.take();
        let key = id[KEYED - 1];
        id[0] = worker ^ key;
        id[1] = generation ^ key;
        id.into()
    }

    fn owner(&mut self, cid: &[u8]) -> Owner {
        match *cid {
            [worker, generation, .., key]
                if cid.len() == KEYED && generation ^ key < GENERATIONS =>
            {
                Owner::Ours { worker: worker ^ key, generation: generation ^ key }
            }
            _ => Owner::Foreign,
        }
    }

    fn steering(&self) -> Steering {
        Steering::Hash
    }

    fn mark(&self, _: u8) -> Option<CidMark> {
        None
    }
}

const KEY: [u8; 16] = *b"a key for tests!";

/// Tables of configurations whose IDs have every shape.
pub(crate) const TABLES: &[&str] = &[
    "format = \"plain\"",
    "format = \"katran\"\nserver_id = \"0102\"",
    "format = \"katran\"\nserver_id = \"010203\"",
    "format = \"katran\"\nserver_id = \"01020304\"",
    "format = \"quic-lb\"",
    "format = \"quic-lb\"\nserver_id = \"0102030405060708\"\nnonce = 7",
    "format = \"quic-lb\"\nserver_id = \"01\"\nnonce = 4\nconfig = 6",
    "format = \"quic-lb\"\nserver_id = \"01\"\nnonce = 16\nconfig = 6",
    "format = \"quic-lb\"\nserver_id = \"0102030405060708\"\nkey_file = \"key\"",
    "format = \"quic-lb\"\nserver_id = \"0102030405060708\"\nnonce = 9\nkey_file = \"key\"",
    "format = \"quic-lb\"\nserver_id = \"010203040506070809\"\nnonce = 8\nkey_file = \"key\"",
    "format = \"quic-lb\"\nserver_id = \"0102030405\"\nconfig = 3\nkey_file = \"key\"\n\
     [[quic.connection_ids]]\nformat = \"quic-lb\"\nserver_id = \"01020304050607\"",
];

/// Returns the schemes of such a table.
pub(crate) fn configured(table: &str) -> CidSchemes {
    let read = configured::read(table, &[], true);
    read.expect("a configuration that can be served")
}

/// Returns the scheme of a server by itself, those for load balancers, and one that the kernel cannot read.
pub(crate) fn schemes() -> Vec<Box<dyn CidScheme>> {
    let configured = TABLES.iter().map(|table| configured(table).scheme());
    configured.chain([Box::new(Encrypted) as Box<_>]).collect()
}

/// Returns a packet with a short header, and one with a long header.
fn packets(id: &ConnectionId) -> [Vec<u8>; 2] {
    let id = id.as_bytes();
    let long = [&[0xc0, 0, 0, 0, 1, u8::try_from(id.len()).unwrap()], id, &[0; 30]].concat();
    [[&[0x40], id, &[0; 30]].concat(), long]
}

#[test]
fn the_owner_of_an_id_is_who_made_it_and_the_kernel_finds_its_worker() {
    let entropy = &mut Entropy::new();
    for mut scheme in schemes() {
        let (cid_len, steering) = (scheme.cid_len(), scheme.steering());
        for worker in 0..=255 {
            for generation in 0..GENERATIONS {
                let id = scheme.generate(worker, generation, entropy);
                assert_eq!(id.as_bytes().len(), cid_len);
                assert_eq!(scheme.owner(id.as_bytes()), Owner::Ours { worker, generation });
                let by_id = matches!(steering, Steering::ConnectionId { .. });
                let selected = by_id.then_some(u32::from(worker));
                for packet in packets(&id) {
                    assert_eq!(steering.select(256, &packet), selected, "{steering:?}");
                    // There may be fewer sockets than when it was made: it finds one of them.
                    let fewer = steering.select(u32::from(worker.max(1)), &packet);
                    let is_one = fewer.is_some_and(|one| one < u32::from(worker.max(1)));
                    assert_eq!(is_one, by_id, "{steering:?}");
                }
            }
        }
    }
}

#[test]
fn the_mark_of_a_process_is_on_all_its_ids_and_on_no_other_process_s() {
    let entropy = &mut Entropy::new();
    for mut scheme in schemes() {
        for generation in 0..GENERATIONS {
            let other = (generation + 1) % GENERATIONS;
            let Some(mark) = scheme.mark(generation) else {
                assert_eq!(scheme.mark(other), None);
                continue;
            };
            for worker in 0..=255 {
                assert!(mark.is_on(scheme.generate(worker, generation, entropy).as_bytes()));
                assert!(!mark.is_on(scheme.generate(worker, other, entropy).as_bytes()));
            }
        }
    }
}

#[test]
fn ids_of_another_length_are_somebody_else_s() {
    for mut scheme in schemes() {
        let own = scheme.cid_len();
        for len in (0..=255).filter(|len| *len != own) {
            for byte in [0, 0x40, 0x63, 0xff] {
                assert_eq!(scheme.owner(&vec![byte; len]), Owner::Foreign);
            }
        }
    }
}

#[test]
fn no_two_ids_are_alike() {
    let entropy = &mut Entropy::new();
    for mut scheme in schemes() {
        let ids: HashSet<ConnectionId> =
            (0..1000).map(|_| scheme.generate(1, 2, entropy)).collect();
        assert_eq!(ids.len(), 1000);
    }
}
