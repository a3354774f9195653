//! Connection IDs as Katran reads them: two bits of version, then the number of the host.
//!
//! | version | bits of the host | place of the host |
//! |---|---|---|
//! | 1 | 16 | bits 2 to 17 |
//! | 2 | 24 | bytes 1 to 3 |
//! | 3 | 32 | bytes 1 to 4 |
//!
//! The bits between the version and the host are the server's own, and so is everything behind the host. Katran reads no ID in a long header that is
//! shorter than 8 bytes.

use crate::LengthError;

/// Number of a host behind Katran, by the version of the ID that has room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostId {
    /// 16 bits.
    V1(u16),
    /// 24 bits, most significant byte first.
    V2([u8; 3]),
    /// 32 bits.
    V3(u32),
}

/// The number of a host has not 2, 3 or 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a host ID of Katran has 2, 3 or 4 bytes (versions 1, 2 and 3)")]
pub struct HostIdError;

/// Bits of the first byte that are not the version.
const BELOW_VERSION: u8 = 0x3f;

impl HostId {
    /// Returns the host of a number, most significant byte first, in the version that has as many bytes.
    ///
    /// # Errors
    /// No version has that many.
    pub fn from_bytes(number: &[u8]) -> Result<HostId, HostIdError> {
        match *number {
            [a, b] => Ok(HostId::V1(u16::from_be_bytes([a, b]))),
            [a, b, c] => Ok(HostId::V2([a, b, c])),
            [a, b, c, d] => Ok(HostId::V3(u32::from_be_bytes([a, b, c, d]))),
            _ => Err(HostIdError),
        }
    }

    /// Returns the version, 1 to 3.
    pub fn version(self) -> u8 {
        match self {
            HostId::V1(_) => 1,
            HostId::V2(_) => 2,
            HostId::V3(_) => 3,
        }
    }

    /// Returns how many bytes of an ID have a part of version or host, 3 to 5.
    pub fn routing_len(self) -> usize {
        usize::from(self.version()) + 2
    }

    /// Writes version and host over the first bytes of an ID. Bits of these bytes that are neither stay as they are.
    ///
    /// # Errors
    /// The ID is shorter.
    pub fn encode(self, id: &mut [u8]) -> Result<(), LengthError> {
        let id = id.get_mut(..self.routing_len()).ok_or(LengthError)?;
        let version = self.version() << 6;
        match self {
            HostId::V1(host) => {
                let [high, low] = host.to_be_bytes();
                id[0] = version | high >> 2;
                id[1] = high << 6 | low >> 2;
                id[2] = low << 6 | id[2] & BELOW_VERSION;
            }
            HostId::V2(host) => {
                id[0] = version | id[0] & BELOW_VERSION;
                id[1..].copy_from_slice(&host);
            }
            HostId::V3(host) => {
                id[0] = version | id[0] & BELOW_VERSION;
                id[1..].copy_from_slice(&host.to_be_bytes());
            }
        }
        Ok(())
    }

    /// Returns the host of an ID; `None` for version 0, and for an ID that is too short.
    pub fn decode(id: &[u8]) -> Option<HostId> {
        match (id.first()? >> 6, id) {
            (1, [a, b, c, ..]) => {
                let high = a << 2 | b >> 6;
                let low = b << 2 | c >> 6;
                Some(HostId::V1(u16::from_be_bytes([high, low])))
            }
            (2, [_, a, b, c, ..]) => Some(HostId::V2([*a, *b, *c])),
            (3, [_, a, b, c, d, ..]) => Some(HostId::V3(u32::from_be_bytes([*a, *b, *c, *d]))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// IDs of Katran's own tests (`KatranBaseTestFixtures.h`), with the hosts that its parser finds in them.
    #[test]
    fn ids_of_katran_s_own_tests_have_the_hosts_that_it_reads() {
        for (id, host) in [
            ([0x41, 0, 0x83, 4, 5, 6, 7, 0], HostId::V1(1026)),
            ([0x41, 0x11, 0, 0, 0, 0, 0, 0], HostId::V1(1092)),
            ([0x44, 1, 3, 4, 5, 6, 7, 0], HostId::V1(4100)),
            ([0x80, 3, 4, 2, 5, 6, 7, 0], HostId::V2([3, 4, 2])),
            ([0x80, 3, 4, 0x44, 0, 0, 0, 0], HostId::V2([3, 4, 0x44])),
            ([0xc0, 3, 4, 2, 5, 6, 7, 0], HostId::V3(0x0304_0205)),
        ] {
            assert_eq!(HostId::decode(&id), Some(host));
            let mut again = id;
            assert_eq!(host.encode(&mut again), Ok(()));
            assert_eq!(again, id);
        }
    }

    #[test]
    fn only_numbers_of_two_to_four_bytes_are_hosts() {
        for len in 0..10 {
            let host = HostId::from_bytes(&vec![7; len]);
            assert_eq!(host.is_ok(), (2..=4).contains(&len), "{len} bytes");
        }
    }

    #[test]
    fn an_id_without_room_is_neither_written_nor_read() {
        for host in [HostId::V1(1), HostId::V2([0, 0, 1]), HostId::V3(1)] {
            let mut id = [0xff; 8];
            let len = host.routing_len();
            assert_eq!(host.encode(&mut id[..len - 1]), Err(LengthError));
            assert_eq!(id, [0xff; 8]);
            assert_eq!(host.encode(&mut id[..len]), Ok(()));
            assert_eq!(HostId::decode(&id[..len]), Some(host));
            assert_eq!(HostId::decode(&id[..len - 1]), None);
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(number in prop::collection::vec(any::<u8>(), 2..=4), mut id in prop::collection::vec(any::<u8>(), 5..=20)) {
            let before = id.clone();
            let host = HostId::from_bytes(&number).unwrap();
            host.encode(&mut id).unwrap();
            prop_assert_eq!(HostId::decode(&id), Some(host));
            prop_assert_eq!(&id[host.routing_len()..], &before[host.routing_len()..]);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(id in prop::collection::vec(any::<u8>(), 0..=40)) {
            let host = HostId::decode(&id);
            prop_assert!(host.is_none() || id[0] >> 6 == host.unwrap().version());
        }
    }
}
