//! Header of the PROXY protocol, by which a connection to an upstream names its client.
//!
//! "The PROXY protocol", versions 1 and 2, by HAProxy's authors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluicegate_config::ProxyProtocolVersion;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::super::failure::Failure;
use crate::peer::Peer;

/// Start of each header of version 2 (§2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and a connection on behalf of a client.
const PROXY: u8 = 0x21;
/// Version 2, and a connection of this server's own.
const LOCAL: u8 = 0x20;
/// TCP over IPv4 and over IPv6.
const TCP: (u8, u8) = (0x11, 0x21);

/// Returns the header of a connection for a client. It says TCP for clients over QUIC, too: receivers know nothing else in
/// front of HTTP.
pub(in crate::proxy) fn of_client(version: ProxyProtocolVersion, peer: &Peer) -> Vec<u8> {
    let (client, server) = addresses(peer);
    let (ip, other) = (client.ip(), server.ip());
    let ports = [client.port(), server.port()];
    match version {
        ProxyProtocolVersion::V1 => {
            let family = if ip.is_ipv4() { "TCP4" } else { "TCP6" };
            let [from, to] = ports;
            format!("PROXY {family} {ip} {other} {from} {to}\r\n").into_bytes()
        }
        ProxyProtocolVersion::V2 => {
            let family = if ip.is_ipv4() { TCP.0 } else { TCP.1 };
            let mut rest = Vec::with_capacity(36);
            for ip in [ip, other] {
                match ip {
                    IpAddr::V4(ip) => rest.extend(ip.octets()),
                    IpAddr::V6(ip) => rest.extend(ip.octets()),
                }
            }
            rest.extend(ports.into_iter().flat_map(u16::to_be_bytes));
            binary(PROXY, family, &rest)
        }
    }
}

/// Returns the header of a connection without a client.
pub(in crate::proxy) fn of_server(version: ProxyProtocolVersion) -> Vec<u8> {
    match version {
        ProxyProtocolVersion::V1 => b"PROXY UNKNOWN\r\n".to_vec(),
        ProxyProtocolVersion::V2 => binary(LOCAL, 0, &[]),
    }
}

/// Writes a header to a fresh stream, which has room for it, and returns the stream.
///
/// # Errors
/// The upstream has closed the connection.
pub(super) async fn begin<S>(mut stream: S, header: &[u8]) -> Result<S, Failure>
where
    S: AsyncWrite + Unpin,
{
    if !header.is_empty() {
        let written = stream.write_all(header).await;
        written.map_err(|_| Failure::Closed)?;
    }
    Ok(stream)
}

/// Returns a header of version 2.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    // At most two IPv6 addresses and two ports.
    let length = u16::try_from(rest.len()).unwrap_or(u16::MAX);
    let mut header = SIGNATURE.to_vec();
    header.extend([command, family]);
    header.extend(length.to_be_bytes());
    header.extend(rest);
    header
}

/// Returns the addresses of the client and of this server, both of one family. The server's is all zeros if it is not known.
fn addresses(peer: &Peer) -> (SocketAddr, SocketAddr) {
    let client = peer.address.ip().to_canonical();
    let none: IpAddr = match client {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let local = peer.local.unwrap_or(SocketAddr::new(none, 0));
    let server = local.ip().to_canonical();
    let [client, server] = if client.is_ipv4() == server.is_ipv4() {
        [client, server]
    } else {
        [client, server].map(mapped)
    };
    (SocketAddr::new(client, peer.address.port()), SocketAddr::new(server, local.port()))
}

/// Returns an address as one of IPv6.
fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        IpAddr::V6(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::test_front::peer;

    fn between(client: &str, server: Option<&str>) -> Peer {
        Peer {
            address: client.parse().unwrap(),
            local: server.map(|server| server.parse().unwrap()),
            ..peer(false)
        }
    }

    #[test]
    fn line_names_client_and_server_in_one_family() {
        for (client, server, line) in [
            (
                "192.0.2.7:50000",
                Some("198.51.100.1:443"),
                "PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n",
            ),
            (
                "[::ffff:192.0.2.7]:50000",
                Some("[::ffff:198.51.100.1]:443"),
                "PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n",
            ),
            (
                "[2001:db8::7]:1",
                Some("[2001:db8::1]:443"),
                "PROXY TCP6 2001:db8::7 2001:db8::1 1 443\r\n",
            ),
            (
                "192.0.2.7:0",
                Some("[2001:db8::1]:443"),
                "PROXY TCP6 ::ffff:192.0.2.7 2001:db8::1 0 443\r\n",
            ),
            ("192.0.2.7:9", None, "PROXY TCP4 192.0.2.7 0.0.0.0 9 0\r\n"),
            ("[2001:db8::7]:9", None, "PROXY TCP6 2001:db8::7 :: 9 0\r\n"),
        ] {
            let header = of_client(ProxyProtocolVersion::V1, &between(client, server));
            assert_eq!(String::from_utf8(header).unwrap(), line);
        }
    }

    #[test]
    fn binary_header_has_the_same_addresses() {
        let v4 = between("192.0.2.7:258", Some("198.51.100.1:443"));
        let header = of_client(ProxyProtocolVersion::V2, &v4);
        let (start, rest) = header.split_at(16);
        assert_eq!(start, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c");
        assert_eq!(rest, [192, 0, 2, 7, 198, 51, 100, 1, 1, 2, 1, 187]);
        let v6 = between("[2001:db8::7]:1", Some("192.0.2.1:443"));
        let header = of_client(ProxyProtocolVersion::V2, &v6);
        assert_eq!(&header[12..16], b"\x21\x21\0\x24");
        assert_eq!(header.len(), 16 + 36);
        assert_eq!(header[16 + 26..16 + 32], [255, 255, 192, 0, 2, 1]);
    }

    #[test]
    fn connection_of_the_server_itself_names_no_client() {
        let v2 = of_server(ProxyProtocolVersion::V2);
        assert_eq!(v2, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
        assert_eq!(of_server(ProxyProtocolVersion::V1), b"PROXY UNKNOWN\r\n");
    }
}
