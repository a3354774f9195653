//! Keys of WebSocket's opening handshake over HTTP/1.1 (RFC 6455 §4). Each hop that speaks HTTP/1.1 has a key of its own.

use boring::base64::encode_block;
use boring::sha::sha1;

/// Text that every server appends to the client's key (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns a random key for `sec-websocket-key`; `None` if the system has no randomness.
pub fn new_key() -> Option<String> {
    let mut bytes = [0; 16];
    boring::rand::rand_bytes(&mut bytes).ok()?;
    Some(encode_block(&bytes))
}

/// Returns the value of `sec-websocket-accept` that proves that a server has understood a request with this key.
pub fn accept(key: &[u8]) -> String {
    encode_block(&sha1(&[key, GUID].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_6455_has_its_accept() {
        let accept = accept(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn keys_have_sixteen_random_bytes() {
        let (one, other) = (new_key().unwrap(), new_key().unwrap());
        assert_eq!((one.len(), one != other), (24, true));
    }
}
