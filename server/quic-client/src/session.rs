//! A TLS session, which a connection resumes (RFC 8446 §2.2), and its forms.

use std::net::{Ipv4Addr, SocketAddr};

use boring::base64;
use boring::ssl::{SslContextBuilder, SslMethod, SslSession};
use quiche::{Config, ConnectionId};

/// Name of the PEM block of a session, in OpenSSL and BoringSSL.
const TLS: &str = "SSL SESSION PARAMETERS";
/// Name of the PEM block of the server's transport parameters, which other programs skip.
const QUIC: &str = "QUIC TRANSPORT PARAMETERS";
/// Characters of a line of PEM (RFC 7468 §2).
const LINE: usize = 64;

/// A session that a server has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSession {
    /// Session of TLS, in the encoding of BoringSSL.
    pub tls: Vec<u8>,
    /// Transport parameters of the server, encoded, without which there is no early data over QUIC (RFC 9000 §7.4.1).
    params: Option<Vec<u8>>,
}

/// Reason why a text holds no session that can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// There is no block of a session.
    NoSession,
    /// BoringSSL cannot read what is in the block.
    Unreadable,
    /// quiche cannot read the transport parameters.
    UnreadableParams,
}

impl SavedSession {
    /// Wraps a session of TLS over TCP.
    pub fn of_tls(tls: Vec<u8>) -> SavedSession {
        SavedSession { tls, params: None }
    }

    /// Takes a session of quiche apart: two parts, each after its length in eight bytes.
    pub(crate) fn of_quic(bytes: &[u8]) -> Option<SavedSession> {
        let (tls, rest) = part(bytes)?;
        let (params, _) = part(rest)?;
        Some(SavedSession { tls: tls.to_vec(), params: Some(params.to_vec()) })
    }

    /// Returns the session as quiche takes it. Without transport parameters of the server it has none of them, which stand for limits
    /// of 0 until the handshake brings the true ones.
    pub(crate) fn to_quic(&self) -> Vec<u8> {
        let params = self.params.as_deref().unwrap_or_default();
        let parts = [&self.tls, params].map(|part| {
            let length = part.len() as u64;
            [&length.to_be_bytes(), part].concat()
        });
        parts.concat()
    }

    /// Returns whether early data can be sent over QUIC, if the server allows it.
    pub fn has_params(&self) -> bool {
        self.params.is_some()
    }

    /// Reads a session from the text of a file.
    ///
    /// # Errors
    /// There is none, another TLS library has written it, or a part of it is broken.
    pub fn from_pem(text: &str) -> Result<SavedSession, Unusable> {
        // wolfSSL has a name of its own, which ends with that of the others.
        if !text.contains(TLS) {
            return Err(Unusable::NoSession);
        }
        let tls = block(text, TLS).ok_or(Unusable::Unreadable)?;
        SslSession::from_der(&tls).map_err(|_| Unusable::Unreadable)?;
        if !text.contains(QUIC) {
            return Ok(SavedSession::of_tls(tls));
        }
        let params = block(text, QUIC).ok_or(Unusable::UnreadableParams)?;
        let session = SavedSession { tls, params: Some(params) };
        let taken = session.try_quic();
        taken.map(|()| session).map_err(|_| Unusable::UnreadableParams)
    }

    /// Gives the session to a connection of QUIC that sends nothing: quiche reads transport parameters nowhere else.
    fn try_quic(&self) -> anyhow::Result<()> {
        let tls = SslContextBuilder::new(SslMethod::tls())?;
        let mut config = Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let id = ConnectionId::from_ref(&[0; 8]);
        let mut connection = quiche::connect(None, &id, address, address, &mut config)?;
        Ok(connection.set_session(&self.to_quic())?)
    }

    /// Returns the text of a file with the session.
    pub fn pem(&self) -> String {
        let params = self.params.as_deref().map(|params| pem(QUIC, params));
        pem(TLS, &self.tls) + &params.unwrap_or_default()
    }
}

/// Returns the first part of a session of quiche, and what is behind it.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)
}

/// Returns what is in the first block of that name.
fn block(text: &str, name: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {name}-----"))?;
    let (encoded, _) = rest.split_once(&format!("-----END {name}-----"))?;
    let encoded: String = encoded.split_whitespace().collect();
    base64::decode_block(&encoded).ok()
}

fn pem(name: &str, bytes: &[u8]) -> String {
    let encoded = base64::encode_block(bytes);
    let mut text = format!("-----BEGIN {name}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = behind;
    }
    text + &format!("-----END {name}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Session of TLS 1.3 over TCP as h2load has written it, built with AWS-LC.
    const OF_H2LOAD: &str = include_str!("session/h2load.pem");

    #[test]
    fn a_session_of_h2load_is_read_and_written() {
        let session = SavedSession::from_pem(OF_H2LOAD).unwrap();
        assert!(!session.has_params());
        assert_eq!(session.pem(), OF_H2LOAD);
    }

    #[test]
    fn transport_parameters_have_a_block_of_their_own() {
        let mut session = SavedSession::from_pem(OF_H2LOAD).unwrap();
        for length in [0, 2, 3, 47, 48, 49, 500] {
            session.params = Some(unknown_parameters(length));
            let text = session.pem();
            assert!(text.starts_with(OF_H2LOAD));
            assert!(text.lines().all(|line| line.len() <= LINE));
            assert_eq!(SavedSession::from_pem(&text).as_ref(), Ok(&session));
            assert_eq!(SavedSession::of_quic(&session.to_quic()), Some(session.clone()));
        }
    }

    /// Returns transport parameters with numbers that nobody knows, encoded in so many bytes.
    fn unknown_parameters(length: usize) -> Vec<u8> {
        let mut params = Vec::new();
        for id in 0x21.. {
            // ID, length and value: the last one has what is left.
            let value = match length - params.len() {
                0 => break,
                rest @ 1..=40 => rest - 2,
                _ => 20,
            };
            params.extend([id, u8::try_from(value).unwrap()]);
            params.extend(vec![7; value]);
        }
        params
    }

    #[test]
    fn quiche_gets_no_parameters_if_there_are_none() {
        let session = SavedSession::of_tls(vec![1, 2]);
        let bytes = [&[0, 0, 0, 0, 0, 0, 0, 2, 1, 2][..], &[0; 8]].concat();
        assert_eq!(session.to_quic(), bytes);
    }

    #[test]
    fn what_is_no_session_of_quiche_is_none() {
        let whole = SavedSession::of_tls(vec![1, 2]).to_quic();
        assert!((0..whole.len()).all(|length| SavedSession::of_quic(&whole[..length]).is_none()));
        assert_eq!(SavedSession::of_quic(&[0xff; 40]), None);
    }

    #[test]
    fn what_cannot_be_resumed_is_told_apart() {
        let cut = &OF_H2LOAD[..OF_H2LOAD.len() - 8];
        let of_wolfssl = OF_H2LOAD.replace(TLS, "WOLFSSL SESSION PARAMETERS");
        let other = pem(TLS, b"\x30\x03\x02\x01\x01");
        // A parameter ends too early, the largest datagram is too small, and the block has no end.
        let params = [&b"\x04\x02\x40"[..], b"\x03\x01\x05"].map(|params| pem(QUIC, params));
        let [early, small] = params.map(|params| OF_H2LOAD.to_owned() + &params);
        let open = format!("{OF_H2LOAD}-----BEGIN {QUIC}-----\n");
        for (text, expected) in [
            ("", Unusable::NoSession),
            ("-----BEGIN CERTIFICATE-----\n", Unusable::NoSession),
            (cut, Unusable::Unreadable),
            (&of_wolfssl, Unusable::Unreadable),
            (&other, Unusable::Unreadable),
            (&early, Unusable::UnreadableParams),
            (&small, Unusable::UnreadableParams),
            (&open, Unusable::UnreadableParams),
        ] {
            assert_eq!(SavedSession::from_pem(text), Err(expected), "{text}");
        }
    }
}
