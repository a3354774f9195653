//! First bytes of quoted payloads.

/// Most bytes kept: a byte of a QUIC packet's header, or 6, and the longest connection ID.
const LEN: usize = 26;

/// First bytes of the payload of a datagram that an ICMP message quotes. There may be none: routers need only quote the UDP
/// header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    bytes: [u8; LEN],
    len: usize,
}

impl Quote {
    /// Keeps the first bytes of a quoted payload.
    #[must_use]
    pub fn new(payload: &[u8]) -> Self {
        let len = payload.len().min(LEN);
        let mut bytes = [0; LEN];
        bytes[..len].copy_from_slice(&payload[..len]);
        Self { bytes, len }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
