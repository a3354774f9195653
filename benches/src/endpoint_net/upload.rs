//! The body of a request, as a client sends it.

use quiche::h3;

/// Contents of a body, as far as they are passed to HTTP/3 at once.
const BLOCK: [u8; 16 * 1024] = [b'x'; 16 * 1024];

/// A body that a client sends; without one, nothing.
#[derive(Debug, Default)]
pub(super) struct Upload {
    stream: u64,
    /// Bytes that HTTP/3 has not taken.
    left: u64,
}

impl Upload {
    /// Sends a request whose body has `size` bytes, at least one.
    pub(super) fn begin(
        size: u64,
        http: &mut h3::Connection,
        quic: &mut quiche::Connection,
    ) -> Result<Self, h3::Error> {
        let head = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", "/"),
        ];
        let head = head.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()));
        let stream = http.send_request(quic, &head, false)?;
        Ok(Self { stream, left: size })
    }

    /// Passes on as much as the connection has room for. Returns whether there was anything.
    pub(super) fn send(
        &mut self,
        http: &mut h3::Connection,
        quic: &mut quiche::Connection,
    ) -> Result<bool, h3::Error> {
        let before = self.left;
        while self.left > 0 {
            let size = usize::try_from(self.left).map_or(BLOCK.len(), |left| left.min(BLOCK.len()));
            let ends = size as u64 == self.left;
            match http.send_body(quic, self.stream, &BLOCK[..size], ends) {
                Ok(sent) => self.left -= sent as u64,
                Err(h3::Error::Done) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.left < before)
    }
}
