//! Properties of every connection ID for a load balancer.

use std::sync::Arc;

use sluicegate_base::entropy::Entropy;
use sluicegate_base::properties::Bytes;
use sluicegate_base::secrets::{GENERATIONS, Nonces};
use sluicegate_cid::{HostId, MAX_PLAINTEXT, MIN_NONCE, SelfLength, config_of};

use super::connection_id::MAX_V1_CID;
use super::katran::Katran;
use super::layout::Layout;
use super::quic_lb::{Pool, Routable};
use super::scheme::{CidScheme, Owner};

/// Makes a scheme, and reads an ID that anybody may have made up. Returns whether a balancer would route it, or the server take it
/// for one of its own.
pub fn connection_id(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    if bytes.byte().is_multiple_of(4) { katran(&mut bytes) } else { quic_lb(&mut bytes) }
}

fn katran(bytes: &mut Bytes<'_>) -> bool {
    let len = 2 + usize::from(bytes.byte() % 3);
    let number = padded(bytes.take(len), len);
    let host = HostId::from_bytes(&number).expect("2 to 4 bytes");
    let layout = Layout::behind(host.routing_len(), 0).expect("a short routing part");
    let mut scheme = Katran { host, layout };
    let id = bytes.take(2 * MAX_V1_CID);
    let is_ours = check_scheme(&mut scheme, id);
    let Some(read) = HostId::decode(id) else {
        return is_ours;
    };
    let mut again = id.to_vec();
    assert_eq!((read.encode(&mut again), &again[..]), (Ok(()), id));
    true
}

fn quic_lb(bytes: &mut Bytes<'_>) -> bool {
    let config = bytes.byte() % 7;
    let len = 1 + usize::from(bytes.byte() % 13);
    let longest = MAX_PLAINTEXT - 2 - len;
    let nonce = MIN_NONCE + usize::from(bytes.byte()) % (longest - MIN_NONCE + 1).max(1);
    let key = bytes.byte().is_multiple_of(2).then(|| bytes.array());
    let server_id = padded(bytes.take(len), len);
    let nonces = Arc::new(Nonces::of_process(nonce));
    let pool = Pool { config, server_id, nonce, key, nonces };
    let mut format = pool.format().expect("lengths of the draft");
    let layout = Layout::behind(pool.routing_len(), nonce).expect("a length that fits");
    let mut scheme = Routable::new(layout, std::slice::from_ref(&pool));
    let id = bytes.take(2 * MAX_V1_CID);
    let is_ours = check_scheme(&mut scheme, id);
    let Some(read) = format.decode(id) else {
        return is_ours;
    };
    assert_eq!(config_of(id), Some(config));
    let mut again = id.to_vec();
    let (server_id, nonce) = (read.server_id(), read.nonce());
    let written = format.encode(SelfLength::Random(id[0]), server_id, nonce, &mut again);
    assert_eq!((written, &again[..]), (Ok(()), id));
    true
}

/// Reads an ID, and one that the scheme makes. Returns whether the former could be one of the scheme.
fn check_scheme(scheme: &mut impl CidScheme, id: &[u8]) -> bool {
    let owner = scheme.owner(id);
    if let Owner::Ours { generation, .. } = owner {
        assert_eq!(id.len(), scheme.cid_len());
        assert!(scheme.mark(generation).is_some_and(|mark| mark.is_on(id)));
    }
    let (worker, generation) = (id.first().copied().unwrap_or(0), GENERATIONS / 2);
    let made = scheme.generate(worker, generation, &mut Entropy::new());
    assert_eq!(scheme.owner(made.as_bytes()), Owner::Ours { worker, generation });
    owner != Owner::Foreign
}

/// Returns bytes and then zeros, `len` together.
fn padded(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(len, 0);
    padded
}
