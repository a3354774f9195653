//! Endpoints with connection IDs of any scheme. Time is the test's own.

use sluicegate_base::secrets::GENERATIONS;
use sluicegate_raw_client::{Frame, Setup};

use super::*;
use crate::cid::tests::schemes;
use crate::testing::{Attack, hear};

const PEER: &str = "192.0.2.1:5000";

#[test]
fn a_client_is_served_and_reset_under_ids_of_every_scheme() {
    for (scheme, after_restart) in schemes().into_iter().zip(schemes()) {
        let (cid_len, gives_spares) = (scheme.cid_len(), scheme.gives_spares());
        let mut attack = Attack::new(|s| {
            s.cid_scheme = scheme;
            s.quic.retry_above = Some(0);
        });
        let mut peer = attack.connect(PEER, Setup::new(1));
        assert_eq!((peer.client.retries, peer.client.dcid.len()), (1, cid_len));
        let spare = peer.client.frames.iter().find_map(|frame| match frame {
            Frame::NewConnectionId { id, .. } => Some(id.clone()),
            _ => None,
        });
        assert_eq!(spare.is_some(), gives_spares);
        peer.client.dcid = spare.unwrap_or(peer.client.dcid);
        assert_eq!(peer.client.dcid.len(), cid_len);
        attack.check_honest(&mut peer);
        let secrets = Arc::clone(&attack.endpoint().settings.secrets);
        drop(attack);
        let mut attack = Attack::new(|s| {
            s.cid_scheme = after_restart;
            s.secrets = secrets;
        });
        peer.client.send(&[Frame::Ping, Frame::Padding(60)]);
        attack.speak(&mut peer);
        let said = attack.turn();
        hear(&mut peer, said);
        assert!(peer.client.is_reset);
    }
}

#[test]
fn datagrams_of_other_workers_and_processes_are_told_apart_by_every_scheme() {
    let now = sluicegate_base::clock::now();
    for scheme in schemes() {
        let mut settings = Settings::plain(0, 2);
        settings.cid_scheme = scheme;
        let own = settings.secrets.generation();
        let other = (own + 1) % GENERATIONS;
        let mut endpoint = Endpoint::new(settings, now);
        for (worker, generation, expected) in [
            (0, own, Ingest::Done),
            (1, own, Ingest::Misrouted(1)),
            (2, own, Ingest::Done),
            (0, other, Ingest::Foreign(other)),
            (1, other, Ingest::Foreign(other)),
        ] {
            let entropy = &mut Entropy::new();
            let id = endpoint.settings.cid_scheme.generate(worker, generation, entropy);
            let mut packet = vec![0x40; 100];
            packet[1..=id.as_bytes().len()].copy_from_slice(id.as_bytes());
            assert_eq!(endpoint.ingest(&meta(), &mut packet, now, UNIX), expected);
        }
        // This worker's, and that of a worker that there is not.
        assert_eq!(endpoint.counters.resets, 2);
    }
}

#[test]
fn datagrams_of_other_servers_are_those_of_unknown_connections() {
    let now = sluicegate_base::clock::now();
    let mut tried = 0;
    for scheme in schemes() {
        let mut settings = Settings::plain(0, 2);
        settings.cid_scheme = scheme;
        let own = settings.secrets.generation();
        let mut endpoint = Endpoint::new(settings, now);
        let entropy = &mut Entropy::new();
        // Each bit of the routing part that is not the server's own choice, of an ID of the other worker.
        for bit in 0..24 {
            let id = endpoint.settings.cid_scheme.generate(1, own, entropy);
            let mut id = id.as_bytes().to_vec();
            id[bit / 8] ^= 1 << (bit % 8);
            if endpoint.settings.cid_scheme.owner(&id) != Owner::Foreign {
                continue;
            }
            let mut packet = vec![0x40; 100];
            packet[1..=id.len()].copy_from_slice(&id);
            let before = endpoint.counters.resets;
            assert_eq!(endpoint.ingest(&meta(), &mut packet, now, UNIX), Ingest::Done);
            assert_eq!(endpoint.counters.misrouted, 0);
            assert_eq!(endpoint.counters.resets, before + 1);
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried} IDs");
}
