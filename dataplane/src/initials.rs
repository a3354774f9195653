//! Drops Initial packets in the kernel, at random, when more arrive than a worker can read.
//!
//! A worker that reads a flood of Initials has no time for its connections, even if it drops each at once. A filter in front of the
//! socket's buffer drops them for the sender's share of the machine's time, or the network card's interrupt, and leaves the buffer to
//! other datagrams. It is classic BPF (SO_ATTACH_FILTER), which needs no privilege.
//!
//! It drops datagrams that begin with a long header of version 1 and the type Initial (RFC 9000 §17.2.2), or of another version, which
//! gets no more than Version Negotiation. So it also drops Initials of handshakes that are under way, with the packets in the same
//! datagram; the client's probe timeout sends them again. A batch of GRO passes or is dropped as a whole, by its first datagram; all of
//! it comes from one client.

use libc::sock_filter;

use crate::bpf::{RANDOM, branch, code, step};

/// Shares of Initial packets that pass, each in parts of [`InitialFilter::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialFilter {
    /// Share of Initials to connection IDs of this process: their senders have received one, or guess.
    pub known: u32,
    /// Share of all other Initials, and of packets with long headers of other versions.
    pub unknown: u32,
    /// Mark of the connection IDs of this process; without one, all Initials count as unknown.
    pub mark: Option<CidMark>,
}

/// Byte that the connection IDs of a process have in common, and few others have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CidMark {
    /// Length of the IDs, bytes.
    pub cid_len: u8,
    /// Place of the marked byte in the ID, from 0, less than `cid_len`.
    pub at: u8,
    /// Value of that byte.
    pub value: u8,
}

impl CidMark {
    /// Returns whether a connection ID has the mark. Those that clients choose may have it by chance.
    #[must_use]
    pub fn is_on(&self, cid: &[u8]) -> bool {
        cid.len() == usize::from(self.cid_len) && cid.get(usize::from(self.at)) == Some(&self.value)
    }
}

impl InitialFilter {
    /// The share of all packets.
    pub const ALL: u32 = 1 << 16;
}

/// Length of the UDP header, in front of which the program's packet begins.
const UDP: u32 = 8;
const FIRST: u32 = UDP;
const VERSION: u32 = UDP + 1;
const DCID_LEN: u32 = UDP + 5;
const DCID: u32 = UDP + 6;
const FORM_LONG: u32 = 0x80;
const V1: u32 = 1;
/// Bits of byte 0 that are all 0 in an Initial packet of version 1.
const TYPE: u32 = 0x30;
/// A program returns the length that is left of a packet.
const PASS: u32 = u32::MAX;
const DROP: u32 = 0;
/// No byte has this value.
const NO_BYTE: u32 = 0x100;

/// Makes the program. It sees the UDP header at offset 0. A long header that ends too early is dropped, as is a datagram without a byte.
pub(crate) fn program(filter: &InitialFilter) -> [sock_filter; 16] {
    let (cid_len, at, value) = match filter.mark {
        Some(CidMark { cid_len, at, value }) => (cid_len.into(), at.into(), value.into()),
        None => (NO_BYTE, 0, NO_BYTE),
    };
    [
        step(code::LOAD_BYTE, FIRST),
        branch(code::JUMP_SET, FORM_LONG, 0, 12),
        step(code::LOAD_WORD, VERSION),
        branch(code::JUMP_EQUAL, V1, 0, 8),
        step(code::LOAD_BYTE, FIRST),
        branch(code::JUMP_SET, TYPE, 8, 0),
        step(code::LOAD_BYTE, DCID_LEN),
        branch(code::JUMP_EQUAL, cid_len, 0, 4),
        step(code::LOAD_BYTE, DCID + at),
        branch(code::JUMP_EQUAL, value, 0, 2),
        step(code::LOAD_WORD, RANDOM),
        branch(code::JUMP_GE, bound(filter.known), 3, 2),
        step(code::LOAD_WORD, RANDOM),
        branch(code::JUMP_GE, bound(filter.unknown), 1, 0),
        step(code::RETURN, PASS),
        step(code::RETURN, DROP),
    ]
}

/// Returns the bound below which the random word of a packet that passes lies.
fn bound(share: u32) -> u32 {
    u32::try_from(u64::from(share) << 16).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf;

    const HALF: InitialFilter = InitialFilter {
        known: InitialFilter::ALL * 3 / 4,
        unknown: InitialFilter::ALL / 4,
        mark: Some(MARK),
    };
    const MARK: CidMark = CidMark { cid_len: 16, at: 1, value: 0x63 };

    /// Returns whether the filter passes `payload` where the random word is `random`.
    fn passes(filter: &InitialFilter, payload: &[u8], random: u32) -> bool {
        let packet = [&[0; UDP as usize], payload].concat();
        match bpf::run(&program(filter), &packet, random) {
            DROP => false,
            length => {
                assert_eq!(length, PASS, "nothing is cut off");
                true
            }
        }
    }

    fn long(first: u8, version: u32, cid: &[u8]) -> Vec<u8> {
        let mut payload = vec![first];
        payload.extend(version.to_be_bytes());
        payload.push(u8::try_from(cid.len()).unwrap());
        payload.extend(cid);
        payload.resize(1200, 0x63);
        payload
    }

    fn to_us() -> [u8; 16] {
        let mut cid = [0xaa; 16];
        cid[1] = MARK.value;
        cid
    }

    const QUARTERS: [u32; 4] = [0, 0x4000_0000, 0x8000_0000, 0xc000_0000];

    fn quarters_that_pass(filter: &InitialFilter, payload: &[u8]) -> usize {
        let drawn = QUARTERS.iter();
        drawn.filter(|at| passes(filter, payload, **at)).count()
    }

    #[test]
    fn initials_pass_by_the_share_of_their_connection_id() {
        assert_eq!(quarters_that_pass(&HALF, &long(0xc3, 1, &to_us())), 3);
        let others: [&[u8]; 5] = [&[], &[0x63; 8], &[0x63; 15], &[0x63; 20], &[0xaa; 16]];
        for cid in others {
            assert_eq!(quarters_that_pass(&HALF, &long(0xcf, 1, cid)), 1);
        }
        // The fixed bit and the protected bits decide nothing.
        assert_eq!(quarters_that_pass(&HALF, &long(0x80, 1, &[0xaa; 8])), 1);
    }

    #[test]
    fn the_mark_is_found_at_any_place_of_the_id() {
        for cid_len in 1..=20 {
            for at in 0..cid_len {
                let mark = CidMark { cid_len, at, value: 7 };
                let filter = InitialFilter { mark: Some(mark), ..HALF };
                let mut cid = [0xaa; 21];
                cid[usize::from(at)] = 7;
                for len in 0..=20 {
                    let cid = &cid[..len];
                    assert_eq!(mark.is_on(cid), len == usize::from(cid_len));
                    let expected = if mark.is_on(cid) { 3 } else { 1 };
                    let passed = quarters_that_pass(&filter, &long(0xc0, 1, cid));
                    assert_eq!(passed, expected, "{mark:?}, {len} bytes");
                }
                cid[usize::from(at)] = 8;
                assert!(!mark.is_on(&cid[..cid_len.into()]));
            }
        }
    }

    #[test]
    fn without_a_mark_all_initials_are_those_of_strangers() {
        let filter = InitialFilter { mark: None, ..HALF };
        let cids: [&[u8]; 4] = [&[], &[0; 8], &to_us(), &[0; 20]];
        for cid in cids {
            assert_eq!(quarters_that_pass(&filter, &long(0xc0, 1, cid)), 1);
        }
    }

    #[test]
    fn other_versions_pass_like_initials_of_strangers_whatever_their_type() {
        for version in [0, 2, 0x6b33_43cf, 0xff00_001d, u32::MAX] {
            for first in [0xc0, 0xd0, 0xe0, 0xf0] {
                let payload = long(first, version, &to_us());
                assert_eq!(quarters_that_pass(&HALF, &payload), 1);
            }
        }
    }

    #[test]
    fn everything_else_always_passes() {
        let none = InitialFilter { known: 0, unknown: 0, ..HALF };
        for first in [0xd0, 0xe0, 0xf0, 0x90, 0xef] {
            assert!(passes(&none, &long(first, 1, &to_us()), u32::MAX));
        }
        for first in [0x00, 0x40, 0x7f] {
            assert!(passes(&none, &[first], u32::MAX));
            assert!(passes(&none, &[first; 1200], u32::MAX));
        }
        assert_eq!(quarters_that_pass(&none, &long(0xc0, 1, &to_us())), 0);
        assert_eq!(quarters_that_pass(&none, &long(0xc0, 1, &[])), 0);
    }

    #[test]
    fn the_full_share_passes_all() {
        let all = InitialFilter { known: InitialFilter::ALL, unknown: InitialFilter::ALL, ..HALF };
        for cid in [&to_us()[..], &[1; 8]] {
            assert!(passes(&all, &long(0xc0, 1, cid), u32::MAX - 1));
        }
    }

    #[test]
    fn a_long_header_that_ends_too_early_is_dropped() {
        let whole = long(0xc0, 1, &to_us());
        for length in [1, 4, 5, 7] {
            assert!(!passes(&HALF, &whole[..length], 0), "{length}");
        }
        assert!(!passes(&HALF, &[], 0));
        assert!(passes(&HALF, &whole[..8], 0));
    }
}
