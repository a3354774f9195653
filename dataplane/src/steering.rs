//! Selects the socket of a SO_REUSEPORT group for each datagram, by the worker byte of its QUIC connection ID.
//!
//! A server chooses its connection IDs so that byte 0 is the worker's index. That is byte 1 of a packet with a short
//! header (RFC 9000 §17.3) and byte 6 of one with a long header (RFC 8999 §5.1), where only a destination ID of 8
//! bytes or more can be one of ours. Whatever else arrives (runts, a client's own random ID whose first byte names no
//! worker) falls back to the kernel's hash over the 4-tuple.
//!
//! The index counts the sockets of the group in the order in which they were bound, and closing one moves the last
//! one into its place. A GSO batch over loopback is steered once, by its first datagram, and a client's random ID may
//! name any worker: so a worker must expect misrouted datagrams.

use libc::sock_filter;

use crate::bpf::{branch, code, step};

/// Shortest datagram whose worker byte is read in either kind of header.
const SHORTEST: u32 = 7;
const FORM_LONG: u32 = 0x80;
const DCID_LEN_AT: u32 = 5;
const OUR_CID_LEN: u32 = 8;
const WORKER_AT_LONG: u32 = 6;
const WORKER_AT_SHORT: u32 = 1;
/// No socket has this index: the kernel falls back to its hash.
const HASH: u32 = u32::MAX;

/// Makes the program for a group of `workers`. It sees the UDP payload at offset 0.
pub(crate) const fn program(workers: u32) -> [sock_filter; 12] {
    [
        step(code::LOAD_LEN, 0),
        branch(code::JUMP_GE, SHORTEST, 0, 9),
        step(code::LOAD_BYTE, 0),
        branch(code::JUMP_SET, FORM_LONG, 2, 0),
        step(code::LOAD_BYTE, WORKER_AT_SHORT),
        step(code::JUMP, 3),
        step(code::LOAD_BYTE, DCID_LEN_AT),
        branch(code::JUMP_GE, OUR_CID_LEN, 0, 3),
        step(code::LOAD_BYTE, WORKER_AT_LONG),
        branch(code::JUMP_GE, workers, 1, 0),
        step(code::RETURN_A, 0),
        step(code::RETURN, HASH),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf;

    fn run(workers: u32, datagram: &[u8]) -> u32 {
        bpf::run(&program(workers), datagram, 0)
    }

    fn long(cid_len: u8, worker: u8) -> Vec<u8> {
        let mut datagram = vec![0xc3, 0, 0, 0, 1, cid_len, worker];
        datagram.resize(40, 0xaa);
        datagram
    }

    fn short(worker: u8) -> Vec<u8> {
        let mut datagram = vec![0x43, worker];
        datagram.resize(40, 0xaa);
        datagram
    }

    #[test]
    fn the_worker_byte_picks_the_socket() {
        for worker in 0..4u8 {
            assert_eq!(run(4, &short(worker)), u32::from(worker));
            assert_eq!(run(4, &long(8, worker)), u32::from(worker));
            assert_eq!(run(4, &long(20, worker)), u32::from(worker));
        }
        assert_eq!(run(256, &short(255)), 255);
    }

    #[test]
    fn whatever_else_is_hashed() {
        assert_eq!(run(4, &short(4)), HASH);
        assert_eq!(run(4, &long(8, 200)), HASH);
        assert_eq!(run(4, &long(7, 1)), HASH);
        assert_eq!(run(4, &long(0, 1)), HASH);
        for len in 0..SHORTEST as usize {
            assert_eq!(run(4, &short(1)[..len.min(40)]), HASH);
            assert_eq!(run(4, &long(8, 1)[..len]), HASH);
        }
        assert_eq!(run(4, &long(8, 1)[..SHORTEST as usize]), 1);
    }
}
