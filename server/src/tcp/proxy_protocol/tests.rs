use proptest::prelude::*;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::*;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n";

fn client(client: &str, server: &str) -> ProxyHeader {
    let [client, server] = [client, server].map(|text| text.parse().unwrap());
    ProxyHeader::Client { client, server }
}

/// Returns a header of version 2.
fn second(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap();
    let fixed = [&[command, family][..], &length.to_be_bytes()];
    [SIGNATURE, &fixed.concat()[..], rest].concat()
}

/// Reads a header of a connection that brings these pieces and ends; returns it with what follows.
fn read_from(pieces: &[&[u8]]) -> io::Result<(ProxyHeader, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let send = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            for piece in pieces {
                // The receiver may have closed.
                let _ = stream.write_all(piece).await;
                tokio::task::yield_now().await;
            }
        };
        let receive = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let header = read(&mut stream).await?;
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await?;
            Ok((header, rest))
        };
        tokio::join!(receive, send).0
    })
}

#[test]
fn headers_of_both_versions_name_client_and_server() {
    let v4 = client("192.0.2.7:50000", "198.51.100.1:443");
    let v6 = client("[2001:db8::7]:50000", "[2001:db8::1]:443");
    let rest4 = [192, 0, 2, 7, 198, 51, 100, 1, 0xc3, 0x50, 1, 0xbb];
    let mut rest6 = [0; 36];
    rest6[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    rest6[16..20].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    (rest6[15], rest6[31]) = (7, 1);
    rest6[32..].copy_from_slice(&rest4[8..]);
    let extended = [&rest4[..], &[4, 0, 1, 9]].concat();
    let longest = [0; LONGEST_REST];
    for (header, expected) in [
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n".to_vec(), v4),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 50000 443\r\n".to_vec(), v6),
        (b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 50000 443\r\n".to_vec(), v4),
        (b"PROXY UNKNOWN\r\n".to_vec(), ProxyHeader::Sender),
        (b"PROXY UNKNOWN ff:: :: 1 2\r\n".to_vec(), ProxyHeader::Sender),
        (second(0x21, 0x11, &rest4), v4),
        (second(0x21, 0x11, &extended), v4),
        (second(0x21, 0x21, &rest6), v6),
        (second(0x20, 0x00, &[]), ProxyHeader::Sender),
        (second(0x20, 0x11, &rest4), ProxyHeader::Sender),
        (second(0x21, 0x00, &[1]), ProxyHeader::Sender),
        (second(0x21, 0x31, &[b'/'; 216]), ProxyHeader::Sender),
        (second(0x20, 0x00, &longest), ProxyHeader::Sender),
    ] {
        let (found, rest) = read_from(&[&header, REQUEST]).unwrap();
        assert_eq!((found, &*rest), (expected, REQUEST), "{header:?}");
        let bytes: Vec<&[u8]> = header.chunks(1).collect();
        let (found, rest) = read_from(&[&bytes[..], &[REQUEST]].concat()).unwrap();
        assert_eq!((found, &*rest), (expected, REQUEST), "{header:?}");
    }
}

#[test]
fn other_beginnings_are_refused() {
    let long = format!("PROXY UNKNOWN {}\r\n", "1".repeat(LONGEST_LINE));
    for header in [
        &b""[..],
        b"PROXY",
        b"PROXY TCP4",
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"PROXY UNKNOWN\n        ",
        b"PROXY UNKNOWNX\r\n",
        b"PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 1 2 3\r\n",
        b"PROXY TCP4 192.0.2.7  198.51.100.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.07 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 01 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 +1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 2\r\n",
        b"proxy TCP4 192.0.2.7 198.51.100.1 1 2\r\n",
        long.as_bytes(),
        &second(0x11, 0x11, &[0; 12]),
        &second(0x22, 0x11, &[0; 12]),
        &second(0x21, 0x11, &[0; 11]),
        &second(0x21, 0x21, &[0; 35]),
        &second(0x21, 0x12, &[0; 12]),
        &second(0x21, 0x41, &[0; 12]),
        &second(0x20, 0x00, &[0; LONGEST_REST + 1]),
        &second(0x21, 0x11, &[0; 12])[..20],
    ] {
        assert!(read_from(&[header]).is_err(), "{header:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// No bytes panic, and a line that is accepted is the one that its addresses make, or names none.
    #[test]
    fn any_bytes(
        line_bytes in "(PROXY )?(TCP4|TCP6|UNKNOWN|[A-Z]{0,5})( [0-9a-f.:]{0,12}){0,5}(\r\n|\n)?",
        command: u8,
        family in prop_oneof![Just(0x11), Just(0x21), Just(0x00), any::<u8>()],
        rest in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let header = line(line_bytes.as_bytes());
        if let Some(ProxyHeader::Client { client, server }) = header
            && line_bytes.contains("TCP4")
        {
            let again = format!(
                "PROXY TCP4 {} {} {} {}\r\n", client.ip(), server.ip(), client.port(), server.port()
            );
            prop_assert_eq!(again, line_bytes);
        }
        let _ = line(&rest);
        let found = binary(command, family, &rest);
        prop_assert!(found.is_none() || command == 0x20 || command == 0x21);
    }
}
