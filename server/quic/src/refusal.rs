//! Refusal of a connection: an Initial packet with CONNECTION_CLOSE, made without a connection (RFC 9000 §5.2.2, §10.2.3).
//!
//! The Initial that asks for the connection is not decrypted first. Its keys follow from its own header (RFC 9001 §5.2), so
//! anyone can seal one, under any source address: decryption would cost more and prove nothing. The refusal has about a
//! twentieth of the Initial's length, and the caller limits the rate.

use boring::aead::{AeadCtx, Algorithm};
use boring::error::ErrorStack;
use boring::hash::hmac_sha256;
use boring::symm::{Cipher, Crypter, Mode};

use super::cid::ConnectionId;
use super::cid::MAX_V1_CID;
use super::header::{Header, HeaderKind, V1};

/// Length of the longest refusal, bytes.
pub const LONGEST: usize = 1 + 4 + 1 + MAX_V1_CID + 1 + MAX_V1_CID + 1 + 1 + SEALED;

/// Salt of version 1 (RFC 9001 §5.2).
const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
/// CONNECTION_REFUSED (RFC 9000 §20.1).
pub const CONNECTION_REFUSED: u8 = 0x2;
/// TRANSPORT_PARAMETER_ERROR (RFC 9000 §20.1).
pub const TRANSPORT_PARAMETER_ERROR: u8 = 0x8;
/// Length of CONNECTION_CLOSE of the transport, caused by no frame and without a phrase: strangers learn nothing of the server's
/// load (RFC 9000 §19.19).
const CLOSE: usize = 4;
/// Length of the packet number, which is 0.
const NUMBER: usize = 1;
const TAG: usize = 16;
/// Value of the packet's Length field: the bytes of packet number, frame and tag. It fits in one byte.
const SEALED: usize = NUMBER + CLOSE + TAG;
/// Bytes between the start of the packet number and the sample for header protection (RFC 9001 §5.4.2).
const SAMPLE: usize = 4;

/// Inputs of HKDF-Expand-Label for what its names say: two bytes of length, the label behind its own length, no context, and
/// the number of the first block.
const SERVER_IN: &[u8] = b"\x00\x20\x0ftls13 server in\x00\x01";
const QUIC_KEY: &[u8] = b"\x00\x10\x0etls13 quic key\x00\x01";
const QUIC_IV: &[u8] = b"\x00\x0c\x0dtls13 quic iv\x00\x01";
const QUIC_HP: &[u8] = b"\x00\x10\x0dtls13 quic hp\x00\x01";

/// Keys that seal a server's Initial packets.
struct Keys {
    key: [u8; 16],
    iv: [u8; 12],
    header: [u8; 16],
}

impl Keys {
    /// Derives the keys of the server for the connection that a client asks for under `dcid` (RFC 9001 §5.2).
    fn derive(dcid: &[u8]) -> Result<Keys, ErrorStack> {
        let initial = hmac_sha256(&SALT, dcid)?;
        let server = expand(&initial, SERVER_IN)?;
        Ok(Keys {
            key: expand(&server, QUIC_KEY)?,
            iv: expand(&server, QUIC_IV)?,
            header: expand(&server, QUIC_HP)?,
        })
    }
}

/// Returns the first `N` bytes, 32 at most, of HKDF-Expand-Label; `info` is its whole input (RFC 8446 §7.1).
fn expand<const N: usize>(secret: &[u8; 32], info: &[u8]) -> Result<[u8; N], ErrorStack> {
    const { assert!(N <= 32) };
    let block = hmac_sha256(secret, info)?;
    let mut out = [0; N];
    out.copy_from_slice(&block[..N]);
    Ok(out)
}

/// Writes the refusal of a connection to the client whose Initial begins with `header`, from a connection ID that is drawn
/// for it, and returns the refusal's length. `None` for any other packet, or where `out` is shorter than [`LONGEST`]. `code` is
/// the transport's, below 64.
pub fn write_refusal(
    header: &Header<'_>,
    code: u8,
    scid: ConnectionId,
    out: &mut [u8],
) -> Option<usize> {
    if header.kind != HeaderKind::Initial || out.len() < LONGEST {
        return None;
    }
    let keys = Keys::derive(header.dcid).ok()?;
    let (version, scid) = (V1.to_be_bytes(), scid.as_bytes());
    let mut sealed = 0;
    for field in [
        // Initial, with a packet number of one byte.
        &[0xc0][..],
        &version,
        &[u8::try_from(header.scid.len()).ok()?],
        header.scid,
        &[u8::try_from(scid.len()).ok()?],
        scid,
        // No token, the length of the rest, and the packet number.
        &[0, u8::try_from(SEALED).ok()?, 0],
    ] {
        out.get_mut(sealed..sealed + field.len())?.copy_from_slice(field);
        sealed += field.len();
    }
    let (associated, rest) = out.split_at_mut(sealed);
    let (close, rest) = rest.split_at_mut_checked(CLOSE)?;
    close.copy_from_slice(&[0x1c, code, 0, 0]);
    let tag = rest.get_mut(..TAG)?;
    // The nonce of packet 0 is the IV.
    AeadCtx::new_default_tag(&Algorithm::aes_128_gcm(), &keys.key)
        .and_then(|mut cipher| cipher.seal_in_place_mut(&keys.iv, close, tag, associated).map(drop))
        .ok()?;
    protect(&keys.header, out, sealed - NUMBER).ok()?;
    Some(sealed + CLOSE + TAG)
}

/// Applies header protection to a packet whose number stands at `number` (RFC 9001 §5.4.1).
fn protect(key: &[u8; 16], packet: &mut [u8], number: usize) -> Result<(), ErrorStack> {
    let mut mask = [0; 32];
    let sample = &packet[number + SAMPLE..number + SAMPLE + 16];
    Crypter::new(Cipher::aes_128_ecb(), Mode::Encrypt, key, None)?.update(sample, &mut mask)?;
    packet[0] ^= mask[0] & 0x0f;
    packet[number] ^= mask[1];
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex<const N: usize>(digits: &str) -> [u8; N] {
        let mut out = [0; N];
        for (byte, at) in out.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        }
        out
    }

    /// The example of RFC 9001 §A.1.
    #[test]
    fn keys_are_those_of_the_standard_s_example() {
        let keys = Keys::derive(&unhex::<8>("8394c8f03e515708")).unwrap();
        assert_eq!(keys.key, unhex("cf3a5331653c364c88f0f379b6067e37"));
        assert_eq!(keys.iv, unhex("0ac1493ca1905853b0bba03e"));
        assert_eq!(keys.header, unhex("c206b8d9b9f0f37644430b490eeaa314"));
    }

    fn initial<'a>(dcid: &'a [u8], scid: &'a [u8]) -> Header<'a> {
        Header { kind: HeaderKind::Initial, version: Some(V1), dcid, scid, token: &[] }
    }

    #[test]
    fn a_refusal_goes_to_the_client_s_connection_id_and_is_far_shorter_than_its_cause() {
        for length in [0, 8, 20] {
            let scid = vec![0xaa; length];
            let own = ConnectionId::from([0xbb; 16]);
            let mut out = [0; LONGEST];
            let written =
                write_refusal(&initial(&[1; 8], &scid), CONNECTION_REFUSED, own, &mut out).unwrap();
            let saved = 2 * MAX_V1_CID - length - own.as_bytes().len();
            assert_eq!(written, LONGEST - saved);
            assert!(written < super::super::header::MIN_CLIENT_DATAGRAM / 10);
            let header = Header::parse_as_client(&out[..written], 16).unwrap();
            assert_eq!(header.kind, HeaderKind::Initial);
            assert_eq!((header.dcid, header.scid), (&scid[..], own.as_bytes()));
            assert_eq!(header.token, b"");
            // Another server does not take it for a client's.
            assert!(Header::parse(&out[..written], 16).is_err());
        }
    }

    #[test]
    fn only_initials_are_refused_and_only_where_there_is_room() {
        let own = ConnectionId::from([0xbb; 16]);
        let header = initial(&[1; 8], &[2; 8]);
        assert_eq!(write_refusal(&header, CONNECTION_REFUSED, own, &mut [0; LONGEST - 1]), None);
        for kind in
            [HeaderKind::ZeroRtt, HeaderKind::Handshake, HeaderKind::Retry, HeaderKind::Short]
        {
            let other = Header { kind, ..header };
            assert_eq!(write_refusal(&other, CONNECTION_REFUSED, own, &mut [0; LONGEST]), None);
        }
    }
}
