//! Place of the destination connection ID in a datagram (RFC 8999).

/// Bit of the first byte that says that the header is long.
const FORM_LONG: u8 = 0x80;
/// Place of the ID's length in a long header, behind the first byte and the version.
const LENGTH_AT: usize = 5;
/// Least size of a datagram with which a client may begin a connection (RFC 9000 §14.1).
const MIN_INITIAL: usize = 1200;

/// Returns whether a datagram may begin a connection, of whatever version.
pub(crate) fn may_begin(datagram: &[u8]) -> bool {
    datagram.len() >= MIN_INITIAL && datagram[0] & FORM_LONG != 0
}

/// Returns the bytes at whose start the destination connection ID of the first packet stands. In a short header, whose ID has no
/// length, more may follow. Packets behind the first one have the same ID (RFC 9000 §12.2). Returns `None` if the header ends too early.
pub(crate) fn destination_id(datagram: &[u8]) -> Option<&[u8]> {
    let (first, rest) = datagram.split_first()?;
    if first & FORM_LONG == 0 {
        return Some(rest);
    }
    let (length, id) = datagram.get(LENGTH_AT..)?.split_first()?;
    id.get(..usize::from(*length))
}

/// Returns the source connection ID of the first packet, by which its sender wants to be addressed; only long headers have one.
pub(crate) fn source_id(datagram: &[u8]) -> Option<&[u8]> {
    if datagram.first()? & FORM_LONG == 0 {
        return None;
    }
    let (length, rest) = datagram.get(LENGTH_AT..)?.split_first()?;
    let (length, id) = rest.get(usize::from(*length)..)?.split_first()?;
    id.get(..usize::from(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_follows_the_first_byte_or_its_own_length() {
        assert_eq!(destination_id(&[0x40, 1, 2, 3]), Some(&[1, 2, 3][..]));
        assert_eq!(destination_id(&[0]), Some(&[][..]));
        assert_eq!(destination_id(&[0xc0, 0, 0, 0, 1, 2, 8, 9, 10]), Some(&[8, 9][..]));
        assert_eq!(destination_id(&[0xc0, 0, 0, 0, 1, 0]), Some(&[][..]));
    }

    #[test]
    fn the_senders_id_follows_that_of_the_receiver() {
        let whole = [0xc0, 0, 0, 0, 1, 2, 8, 9, 3, 4, 5, 6];
        assert_eq!(source_id(&[&whole[..], &[7]].concat()), Some(&[4, 5, 6][..]));
        assert_eq!(source_id(&[0xc0, 0, 0, 0, 1, 0, 0]), Some(&[][..]));
        for length in 0..whole.len() {
            assert_eq!(source_id(&whole[..length]), None, "{length}");
        }
        assert_eq!(source_id(&[0x40; 40]), None);
    }

    #[test]
    fn only_a_long_header_in_a_large_datagram_begins_a_connection() {
        assert!(may_begin(&[0xc0; 1200]));
        assert!(!may_begin(&[0xc0; 1199]) && !may_begin(&[0x40; 1200]) && !may_begin(&[]));
    }

    #[test]
    fn a_header_that_ends_too_early_has_none() {
        let whole = [0xc0, 0, 0, 0, 1, 2, 8, 9];
        for length in 0..whole.len() {
            assert_eq!(destination_id(&whole[..length]), None, "{length}");
        }
    }
}
