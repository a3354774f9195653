//! Selects the socket of a SO_REUSEPORT group for each datagram, by the worker's index in its QUIC connection ID.
//!
//! The server decides what its connection IDs look like, and says by [`Steering`] where the index stands. The ID begins
//! at byte 1 of a packet with a short header (RFC 9000 §17.3), and at byte 6 of one with a long header, behind its length
//! (RFC 8999 §5.1). Runts, IDs that are too short, and indices of no worker fall back to the kernel's hash of addresses
//! and ports.
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
/// No socket has this index: the kernel falls back to its hash.
const HASH: u32 = u32::MAX;

impl Steering {
    /// Makes the program for a group of `workers`. It sees the UDP payload at offset 0.
    pub(crate) fn program(self, workers: u32) -> Vec<sock_filter> {
        let Self::ConnectionId { worker_at, shortest } = self else {
            return vec![step(code::RETURN, HASH)];
        };
        let worker_at = u32::from(worker_at);
        let worker_at_long = DCID_AT_LONG + worker_at;
        vec![
            step(code::LOAD_LEN, 0),
            // A load beyond the end would select socket 0.
            branch(code::JUMP_GE, worker_at_long + 1, 0, 9),
            step(code::LOAD_BYTE, 0),
            branch(code::JUMP_SET, FORM_LONG, 2, 0),
            step(code::LOAD_BYTE, DCID_AT_SHORT + worker_at),
            step(code::JUMP, 3),
            step(code::LOAD_BYTE, DCID_LEN_AT),
            branch(code::JUMP_GE, u32::from(shortest).max(worker_at + 1), 0, 3),
            step(code::LOAD_BYTE, worker_at_long),
            branch(code::JUMP_GE, workers, 1, 0),
            step(code::RETURN_A, 0),
            step(code::RETURN, HASH),
        ]
    }

    /// Runs the program of a group of `workers` as the kernel would. Returns the selected worker; `None` if the kernel is to
    /// hash.
    #[cfg(any(test, feature = "test-backends"))]
    #[must_use]
    pub fn select(self, workers: u32, datagram: &[u8]) -> Option<u32> {
        let selected = crate::bpf::run(&self.program(workers), datagram, 0);
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
    fn whatever_else_is_hashed() {
        assert_eq!(FIRST.select(4, &short(0, 4)), None);
        assert_eq!(FIRST.select(4, &long(8, 0, 200)), None);
        assert_eq!(FIRST.select(4, &long(7, 0, 1)), None);
        assert_eq!(FIRST.select(4, &long(0, 0, 1)), None);
        for len in 0..7 {
            assert_eq!(FIRST.select(4, &short(0, 1)[..len]), None);
            assert_eq!(FIRST.select(4, &long(8, 0, 1)[..len]), None);
        }
        assert_eq!(FIRST.select(4, &long(8, 0, 1)[..7]), Some(1));
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
            assert_eq!(steering.select(4, &short(worker_at, 4)), None);
            assert_eq!(steering.select(4, &long(20, worker_at, 4)), None);
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
    fn an_id_that_is_too_short_is_hashed() {
        for worker_at in [8, 9, 17u8] {
            // What stands behind the ID is no index, even if the server allows so short an ID.
            for shortest in 0..=worker_at + 1 {
                let steering = at(worker_at, shortest);
                for cid_len in 0..=worker_at {
                    assert_eq!(steering.select(4, &long(cid_len, worker_at, 1)), None);
                }
                assert_eq!(steering.select(4, &long(worker_at + 1, worker_at, 1)), Some(1));
            }
        }
        assert_eq!(at(9, 16).select(4, &long(15, 9, 1)), None);
        assert_eq!(at(9, 16).select(4, &long(16, 9, 1)), Some(1));
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
