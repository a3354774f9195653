//! Frames of HTTP/2 (RFC 9113).

use std::net::SocketAddr;

use super::raw::Raw;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// SETTINGS with SETTINGS_INITIAL_WINDOW_SIZE of 0.
pub(crate) const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Returns a field section: GET for a path at the host `a`, without Huffman codes and the dynamic table (RFC 7541).
pub(crate) fn section(path: &str) -> Vec<u8> {
    let mut section = vec![0x82, 0x87, 0x01, 1, b'a', 0x04];
    section.push(u8::try_from(path.len()).unwrap());
    section.extend_from_slice(path.as_bytes());
    section
}

/// Returns a frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head, stream.to_be_bytes().as_slice(), payload].concat()
}

/// Opens a connection of HTTP/2.
pub(crate) fn http2(server: SocketAddr) -> Raw {
    begin(Raw::open_with(server, b"\x02h2"), &[])
}

/// Begins HTTP/2 on a connection, with settings as SETTINGS has them.
pub(crate) fn begin(mut client: Raw, settings: &[u8]) -> Raw {
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.send(&frame(SETTINGS, 0, 0, settings));
    client
}

/// Returns a request without a body on a stream.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &section(path))
}

pub(crate) fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// Waits until the server has read everything before a PING; `None` if it has closed the connection.
pub(crate) fn ping(client: &mut Raw) -> Option<()> {
    client.try_send(&frame(PING, 0, 0, &[7; 8])).ok()?;
    client.try_read_past(&frame(PING, ACK, 0, &[7; 8]))
}

/// Frame that a server has sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// Reads the next frame; `None` at the end of the connection.
pub(crate) fn read_frame(client: &mut Raw) -> Option<Frame> {
    let mut head = [0; 9];
    client.read_exact(&mut head).ok()?;
    let [a, b, c, kind, flags, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    client.read_exact(&mut payload).ok()?;
    Some(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload })
}
