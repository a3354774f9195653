//! The bytes of a connection ID.

/// Longest connection ID of version 1 (RFC 9000 §17.2).
pub const MAX_V1_CID: usize = 20;

/// A connection ID of version 1 that the server may choose: 1 to 20 bytes (RFC 9000 §17.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// The ID, then zeros.
    bytes: [u8; MAX_V1_CID],
    len: u8,
}

impl ConnectionId {
    /// Returns the bytes as they go on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }

    /// Returns an ID of `len` zeros, or the nearest length that an ID may have.
    pub(super) fn zeros(len: usize) -> ConnectionId {
        let len = u8::try_from(len.clamp(1, MAX_V1_CID)).unwrap_or(1);
        ConnectionId { bytes: [0; MAX_V1_CID], len }
    }

    /// Returns the bytes, for a scheme that writes them.
    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len.into()]
    }
}

impl<const N: usize> From<[u8; N]> for ConnectionId {
    fn from(id: [u8; N]) -> ConnectionId {
        const { assert!(1 <= N && N <= MAX_V1_CID) };
        ConnectionId::try_from(&id[..]).expect("the length is right")
    }
}

/// The length of a connection ID is not 1 to 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a connection ID has 1 to 20 bytes")]
pub struct CidLengthError;

impl TryFrom<&[u8]> for ConnectionId {
    type Error = CidLengthError;

    fn try_from(id: &[u8]) -> Result<ConnectionId, CidLengthError> {
        let mut bytes = [0; MAX_V1_CID];
        let place = bytes.get_mut(..id.len()).filter(|place| !place.is_empty());
        place.ok_or(CidLengthError)?.copy_from_slice(id);
        let len = u8::try_from(id.len()).map_err(|_| CidLengthError)?;
        Ok(ConnectionId { bytes, len })
    }
}

impl AsRef<[u8]> for ConnectionId {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Hexadecimal, as in logs and file names.
impl std::fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConnectionId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_to_twenty_bytes_are_an_id() {
        for len in 0..=40 {
            let bytes = vec![0xab; len];
            let id = ConnectionId::try_from(&bytes[..]);
            assert_eq!(id.is_ok(), (1..=20).contains(&len), "{len} bytes");
            if let Ok(id) = id {
                assert_eq!(id.as_bytes(), bytes);
                assert_eq!(id.to_string(), "ab".repeat(len));
            }
        }
        assert_eq!(ConnectionId::from([7; 3]).as_bytes(), [7; 3]);
        assert_ne!(ConnectionId::from([0; 3]), ConnectionId::from([0; 4]));
    }
}
