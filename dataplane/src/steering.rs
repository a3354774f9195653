//! Selects the socket of a SO_REUSEPORT group for each datagram, by its QUIC connection ID.
//!
//! The server decides what its connection IDs look like, and says by [`Steering`] where the worker's index stands. The ID
//! begins at byte 1 of a packet with a short header (RFC 9000 §17.3), and at byte 6 of one with a long header, behind its
//! length (RFC 8999 §5.1). An ID that a client has chosen names a socket, too, always the same: by bytes of its own where
//! its index is that of no socket. So the sockets of a group may become more without that one of them gets a datagram
//! before the program counts it, and whoever has a datagram in hand knows the socket ([`Steering::socket`]). Runts alone
//! fall back to the kernel's hash of addresses and ports.
//!
//! The index counts the sockets of the group in the order in which they were bound, and closing one moves the last
//! one into its place. A GSO batch over loopback is steered once, by its first datagram, and a client's random ID may
//! name any worker: so a worker must expect misrouted datagrams.

use libc::sock_filter;

use crate::bpf::{branch, code, step};

/// Rule by which the kernel selects a worker for each datagram, if several share a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// By the index of a worker, a byte of the destination connection ID.
    ConnectionId {
        /// Place of that byte in the ID, from 0.
        worker_at: u8,
        /// Length of the shortest ID in a long header that is read, bytes. An ID that ends before the worker's index never is.
        /// A short header does not tell the length: there, every ID is one of the server's.
        shortest: u8,
    },
    /// By the kernel's hash of addresses and ports, for IDs whose worker the kernel cannot read. The workers exchange more
    /// datagrams then.
    Hash,
}

const FORM_LONG: u32 = 0x80;
const DCID_LEN_AT: u32 = 5;
const DCID_AT_LONG: u32 = 6;
const DCID_AT_SHORT: u32 = 1;
/// Place in a long header of the word that spreads the IDs of clients: the second half of the shortest that a client may choose (RFC
/// 9000 §7.2).
const SPREAD_AT: u32 = DCID_AT_LONG + 4;
/// No socket has this index: the kernel falls back to its hash.
const HASH: u32 = u32::MAX;

impl Steering {
    /// Makes the program for a group of `sockets`, at least one. It sees the UDP payload at offset 0.
    pub(crate) fn program(self, sockets: u32) -> Vec<sock_filter> {
        let Self::ConnectionId { worker_at, shortest } = self else {
            return vec![step(code::RETURN, HASH)];
        };
        let worker_at = u32::from(worker_at);
        let worker_at_long = DCID_AT_LONG + worker_at;
        vec![
            step(code::LOAD_LEN, 0),
            // A load beyond the end selects socket 0.
            branch(code::JUMP_GE, worker_at_long + 1, 0, 11),
            step(code::LOAD_BYTE, 0),
            branch(code::JUMP_SET, FORM_LONG, 2, 0),
            step(code::LOAD_BYTE, DCID_AT_SHORT + worker_at),
            step(code::JUMP, 5),
            step(code::LOAD_BYTE, DCID_LEN_AT),
            branch(code::JUMP_GE, u32::from(shortest).max(worker_at + 1), 0, 2),
            step(code::LOAD_BYTE, worker_at_long),
            branch(code::JUMP_GE, sockets, 0, 2),
            step(code::LOAD_WORD, SPREAD_AT),
            step(code::MODULO, sockets.max(1)),
            step(code::RETURN_A, 0),
            step(code::RETURN, HASH),
        ]
    }

    /// Returns the index of the socket that the kernel selects in a group of `sockets`; `None` if it hashes addresses.
    #[must_use]
    pub fn socket(self, sockets: u32, datagram: &[u8]) -> Option<u32> {
        let Self::ConnectionId { worker_at, shortest } = self else {
            return None;
        };
        let byte = |at: u32| datagram.get(at as usize).copied().map(u32::from);
        let worker_at = u32::from(worker_at);
        let sockets = sockets.max(1);
        let in_long = byte(DCID_AT_LONG + worker_at)?;
        if byte(0)? & FORM_LONG == 0 {
            return Some(byte(DCID_AT_SHORT + worker_at)? % sockets);
        }
        let is_read = byte(DCID_LEN_AT)? >= u32::from(shortest).max(worker_at + 1);
        if is_read && in_long < sockets {
            return Some(in_long);
        }
        let word = datagram.get(SPREAD_AT as usize..).and_then(<[u8]>::first_chunk);
        Some(word.map_or(0, |word| u32::from_be_bytes(*word) % sockets))
    }

    /// Runs the program of a group of `sockets` as the kernel would. Returns the selected one; `None` if the kernel is to
    /// hash.
    #[cfg(any(test, feature = "test-backends"))]
    #[must_use]
    pub fn select(self, sockets: u32, datagram: &[u8]) -> Option<u32> {
        let selected = crate::bpf::run(&self.program(sockets), datagram, 0);
        (selected != HASH).then_some(selected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worker's index comes first, as in the IDs of a server by itself.
    const FIRST: Steering = at(0, 8);

    const fn at(worker_at: u8, shortest: u8) -> Steering {
        Steering::ConnectionId { worker_at, shortest }
    }

    /// Returns a packet with a long header to an ID of that length with the index at `worker_at`, wherever the ID ends.
    fn long(cid_len: u8, worker_at: u8, worker: u8) -> Vec<u8> {
        let mut datagram = vec![0xc3, 0, 0, 0, 1, cid_len];
        datagram.resize(40, 0xaa);
        datagram[6 + usize::from(worker_at)] = worker;
        datagram
    }

    fn short(worker_at: u8, worker: u8) -> Vec<u8> {
        let mut datagram = vec![0xaa; 40];
        datagram[0] = 0x43;
        datagram[1 + usize::from(worker_at)] = worker;
        datagram
    }

    #[test]
    fn the_worker_byte_picks_the_socket() {
        for worker in 0..4u8 {
            let selected = Some(u32::from(worker));
            assert_eq!(FIRST.select(4, &short(0, worker)), selected);
            assert_eq!(FIRST.select(4, &long(8, 0, worker)), selected);
            assert_eq!(FIRST.select(4, &long(20, 0, worker)), selected);
        }
        assert_eq!(FIRST.select(256, &short(0, 255)), Some(255));
    }

    #[test]
    fn runts_alone_are_hashed() {
        for len in 0..7 {
            assert_eq!(FIRST.select(4, &short(0, 1)[..len]), None);
            assert_eq!(FIRST.select(4, &long(8, 0, 1)[..len]), None);
        }
        assert_eq!(FIRST.select(4, &long(8, 0, 1)[..7]), Some(1));
        assert_eq!(FIRST.select(4, &long(8, 0, 9)[..7]), Some(0));
    }

    #[test]
    fn an_id_of_a_client_finds_the_same_of_all_sockets_each_time() {
        for sockets in [1, 2, 3, 96, 256] {
            let mut found = vec![0; sockets as usize];
            for number in 0..1000 * sockets {
                let mut packet = long(8, 0, 0);
                packet[6..14].copy_from_slice(&random(u64::from(number)).to_be_bytes());
                let selected = FIRST.select(sockets, &packet).unwrap();
                assert_eq!(FIRST.select(sockets, &packet), Some(selected));
                found[selected as usize] += 1;
            }
            assert!(found.iter().all(|count| (800..1200).contains(count)), "{found:?}");
        }
        // Too short for an index behind a routing part, and still read.
        let packets = (0..=255).map(|byte| [&[0xc0, 0, 0, 0, 1, 8][..], &[byte; 30]].concat());
        let mut found: Vec<_> = packets.map(|one| at(9, 16).select(4, &one).unwrap()).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, [0, 1, 2, 3]);
    }

    /// Whoever has a datagram in hand knows where the kernel would have led it.
    #[test]
    fn the_kernel_s_rule_is_known_outside_of_it() {
        for number in 0..20_000 {
            let mut next = (0..).map(|step| random(number << 20 | step));
            let mut below = |end: u64| next.next().unwrap() % end;
            let worker_at = u8::try_from(below(20)).unwrap();
            let steering = at(worker_at, u8::try_from(below(21)).unwrap());
            let sockets = [1, 2, 3, 7, 255, 256][usize::try_from(below(6)).unwrap()];
            let mut packet: Vec<u8> = (0..below(40)).map(|_| below(256).to_le_bytes()[0]).collect();
            if let Some(length) = packet.get_mut(5) {
                *length %= 24;
            }
            if let Some(index) = packet.get_mut(6 + usize::from(worker_at)) {
                *index %= 8;
            }
            let selected = steering.select(sockets, &packet);
            assert_eq!(steering.socket(sockets, &packet), selected, "{steering:?} {packet:x?}");
            assert_eq!(Steering::Hash.socket(sockets, &packet), None);
        }
    }

    /// Returns a number that looks random (splitmix64).
    fn random(number: u64) -> u64 {
        let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Behind a routing part of that many bytes.
    #[test]
    fn the_worker_byte_is_found_at_any_place_of_the_id() {
        for worker_at in 0..20u8 {
            let steering = at(worker_at, worker_at + 1);
            for worker in 0..4u8 {
                let selected = Some(u32::from(worker));
                assert_eq!(steering.select(4, &short(worker_at, worker)), selected);
                for cid_len in worker_at + 1..=20 {
                    let datagram = long(cid_len, worker_at, worker);
                    assert_eq!(steering.select(4, &datagram), selected, "{cid_len} bytes");
                }
            }
            assert_eq!(steering.select(4, &short(worker_at, 6)), Some(2));
            let end = 7 + usize::from(worker_at);
            for len in 0..end {
                assert_eq!(steering.select(4, &short(worker_at, 1)[..len]), None);
                assert_eq!(steering.select(4, &long(20, worker_at, 1)[..len]), None);
            }
            assert_eq!(steering.select(4, &short(worker_at, 1)[..end]), Some(1));
            assert_eq!(steering.select(4, &long(20, worker_at, 1)[..end]), Some(1));
        }
    }

    #[test]
    fn an_id_that_is_too_short_names_no_worker() {
        // What spreads the IDs, the last bytes of 0xaaaaaaaa but for the index.
        let spread = |packet: &[u8]| Some(u32::from(packet[13]) % 2);
        for worker_at in [8, 9, 17u8] {
            // What stands behind the ID is no index, even if the server allows so short an ID.
            for shortest in 0..=worker_at + 1 {
                let steering = at(worker_at, shortest);
                for cid_len in 0..=worker_at {
                    let packet = long(cid_len, worker_at, 1);
                    assert_eq!(steering.select(2, &packet), spread(&packet));
                }
                assert_eq!(steering.select(2, &long(worker_at + 1, worker_at, 1)), Some(1));
            }
        }
        assert_eq!(at(9, 16).select(2, &long(15, 9, 1)), Some(0));
        assert_eq!(at(9, 16).select(2, &long(16, 9, 1)), Some(1));
    }

    #[test]
    fn everything_is_hashed_if_the_kernel_cannot_read_the_worker() {
        for worker in 0..=255 {
            for datagram in [short(0, worker), long(8, 0, worker), long(20, 9, worker)] {
                for len in 0..=datagram.len() {
                    assert_eq!(Steering::Hash.select(256, &datagram[..len]), None);
                }
            }
        }
    }
}
