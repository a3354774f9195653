//! Header of the PROXY protocol, by which a load balancer in front of the server names the client of a connection.
//!
//! "The PROXY protocol", versions 1 and 2, by HAProxy's authors.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// Start of each header of version 2 (§2.2).
const SIGNATURE: &[u8; START] = b"\r\n\r\n\0\r\nQUIT\n";
/// Start of each header of version 1 (§2.1).
const TEXT: &[u8] = b"PROXY ";
/// Bytes by which the versions differ; each header has more.
const START: usize = 12;
/// Longest header of version 1, with its end.
const LONGEST_LINE: usize = 107;
/// Longest header of version 2 behind its first 16 bytes. Some balancers add the client's certificate, which is skipped.
const LONGEST_REST: usize = 4096;

/// Content of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyHeader {
    /// The connection is on behalf of a client.
    Client {
        /// Address of the client.
        client: SocketAddr,
        /// Address that the client has connected to.
        server: SocketAddr,
    },
    /// The connection is the sender's own, as for a health check, or its client has no IP address.
    Sender,
}

/// Reads the header at the beginning of a connection, and nothing behind it.
///
/// # Errors
/// The connection ends before, or begins otherwise.
pub(super) async fn read(stream: &mut TcpStream) -> io::Result<ProxyHeader> {
    let mut start = [0; START];
    stream.read_exact(&mut start).await?;
    let header = if start == *SIGNATURE {
        let mut fixed = [0; 4];
        stream.read_exact(&mut fixed).await?;
        let [command, family, high, low] = fixed;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > LONGEST_REST {
            return Err(malformed());
        }
        let mut rest = vec![0; length];
        stream.read_exact(&mut rest).await?;
        binary(command, family, &rest)
    } else if start.starts_with(TEXT) {
        line(&read_line(stream, start).await?)
    } else {
        None
    };
    header.ok_or_else(malformed)
}

/// Reads a line that begins with `start`, up to its end.
async fn read_line(stream: &mut TcpStream, start: [u8; START]) -> io::Result<Vec<u8>> {
    let mut line = start.to_vec();
    let mut ahead = [0; LONGEST_LINE - START];
    while line.len() < LONGEST_LINE {
        // Looks first: what follows the line belongs to TLS or HTTP.
        let room = LONGEST_LINE - line.len();
        let seen = stream.peek(&mut ahead[..room]).await?;
        if seen == 0 {
            break;
        }
        let end = ahead[..seen].iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(seen, |at| at + 1);
        stream.read_exact(&mut ahead[..taken]).await?;
        line.extend(&ahead[..taken]);
        if end.is_some() {
            return Ok(line);
        }
    }
    Err(malformed())
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no header of the PROXY protocol")
}

/// Parses a header of version 1 with its end.
fn line(bytes: &[u8]) -> Option<ProxyHeader> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n")?;
    let rest = text.strip_prefix("PROXY ")?;
    if rest == "UNKNOWN" || rest.starts_with("UNKNOWN ") {
        return Some(ProxyHeader::Sender);
    }
    let mut words = rest.split(' ');
    let family = words.next()?;
    let address = |word: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => word.parse().ok().map(IpAddr::V4),
            "TCP6" => word.parse().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let [client, server] = [address(words.next()?)?, address(words.next()?)?];
    let ports = [port(words.next()?)?, port(words.next()?)?];
    match words.next() {
        None => Some(named([client, server], ports)),
        Some(_) => None,
    }
}

/// Parses a port: digits, without zeros in front.
fn port(word: &str) -> Option<u16> {
    let plain = word == "0" || !word.starts_with(['0', '+']);
    word.parse().ok().filter(|_| plain)
}

/// Parses a header of version 2 behind its signature.
fn binary(command: u8, family: u8, rest: &[u8]) -> Option<ProxyHeader> {
    match command {
        0x20 => return Some(ProxyHeader::Sender),
        0x21 => {}
        _ => return None,
    }
    match family {
        // Nothing known, and Unix sockets.
        0x00 | 0x31 => Some(ProxyHeader::Sender),
        0x11 => addresses::<4>(rest, |octets| Ipv4Addr::from(octets).into()),
        0x21 => addresses::<16>(rest, |octets| Ipv6Addr::from(octets).into()),
        // Datagrams are no connections.
        _ => None,
    }
}

/// Parses two addresses of `N` bytes and two ports; extensions may follow.
fn addresses<const N: usize>(rest: &[u8], ip: impl Fn([u8; N]) -> IpAddr) -> Option<ProxyHeader> {
    let (client, rest) = rest.split_first_chunk()?;
    let (server, rest) = rest.split_first_chunk()?;
    let (from, rest) = rest.split_first_chunk()?;
    let to = rest.first_chunk()?;
    let ports = [from, to].map(|port| u16::from_be_bytes(*port));
    Some(named([ip(*client), ip(*server)], ports))
}

fn named(ips: [IpAddr; 2], [from, to]: [u16; 2]) -> ProxyHeader {
    let [client, server] = ips.map(|ip| ip.to_canonical());
    ProxyHeader::Client {
        client: SocketAddr::new(client, from),
        server: SocketAddr::new(server, to),
    }
}

#[cfg(test)]
mod tests;
