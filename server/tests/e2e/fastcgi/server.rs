//! A FastCGI server that plays a few scripts.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::upstream;

/// Starts a server whose scripts respond with the request, unless their names say otherwise.
pub(crate) fn start() -> SocketAddr {
    upstream::start(|mut stream| async move {
        if let Ok((params, body)) = request(&mut stream).await {
            // A client that has gone waits for nothing.
            let _ = respond(&mut stream, &params, &body).await;
        }
    })
}

/// Reads a request: its parameters and its body.
async fn request(stream: &mut TcpStream) -> std::io::Result<(BTreeMap<String, String>, String)> {
    let (mut params, mut body, mut ended) = (Vec::new(), Vec::new(), 0);
    while ended < 2 {
        let mut header = [0; 8];
        stream.read_exact(&mut header).await?;
        let [1, kind, 0, 1, high, low, padding, 0] = header else {
            panic!("{header:?}");
        };
        let mut content = vec![0; usize::from(u16::from_be_bytes([high, low]))];
        stream.read_exact(&mut content).await?;
        let mut rest = vec![0; usize::from(padding)];
        stream.read_exact(&mut rest).await?;
        match kind {
            1 => assert_eq!(content, [0, 1, 0, 0, 0, 0, 0, 0]),
            4 | 5 if content.is_empty() => ended += 1,
            4 => params.extend(content),
            5 => body.extend(content),
            other => panic!("a record of type {other}"),
        }
    }
    let params = pairs(&params);
    let length = params.get("CONTENT_LENGTH").map_or("0", |length| length);
    assert_eq!(length, body.len().to_string());
    Ok((params, String::from_utf8(body).unwrap()))
}

fn pairs(mut bytes: &[u8]) -> BTreeMap<String, String> {
    let mut take = |count: usize| {
        let (taken, rest) = bytes.split_at(count);
        bytes = rest;
        (taken.to_vec(), rest.is_empty())
    };
    let mut found = BTreeMap::new();
    let mut is_end = false;
    while !is_end {
        let mut lengths = [0; 2];
        for length in &mut lengths {
            let (first, _) = take(1);
            *length = usize::from(first[0]);
            if *length > 127 {
                let (rest, _) = take(3);
                let high = (*length - 128) << 24;
                *length = high
                    | usize::from(rest[0]) << 16
                    | usize::from(rest[1]) << 8
                    | usize::from(rest[2]);
            }
        }
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (name, _) = take(lengths[0]);
        let (value, end) = take(lengths[1]);
        found.insert(text(name), text(value));
        is_end = end;
    }
    found
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

async fn respond(
    stream: &mut TcpStream,
    params: &BTreeMap<String, String>,
    body: &str,
) -> std::io::Result<()> {
    let of = |name: &str| params[name].as_str();
    assert!(std::fs::metadata(of("SCRIPT_FILENAME")).unwrap().is_file());
    let head = "Content-Type: text/plain\r\nX-Powered-By: PHP\r\n\r\n";
    let text = match of("SCRIPT_NAME") {
        "/garbage.php" => return stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await,
        "/closed.php" => return Ok(()),
        "/slow.php" => return stream.read_u8().await.map(|_| ()),
        "/cut.php" => {
            let part = format!("{head}part");
            return stream.write_all(&record(6, part.as_bytes())).await;
        }
        "/client.php" => format!(
            "{} {} {} {}",
            of("SERVER_PROTOCOL"),
            of("REQUEST_SCHEME"),
            of("HTTPS"),
            of("REMOTE_ADDR")
        ),
        "/user.php" | "/private/user.php" => {
            let (kind, user) = (params.get("AUTH_TYPE"), params.get("REMOTE_USER"));
            format!("{kind:?} {user:?}")
        }
        script => format!(
            "{} {script} ({}) {} {body}",
            of("REQUEST_METHOD"),
            of("PATH_INFO"),
            of("REQUEST_URI")
        ),
    };
    let messages: &[u8] = match of("SCRIPT_NAME") {
        "/stderr.php" => b"PHP Warning: oops\n",
        _ => b"",
    };
    let response = format!("{head}{text}");
    let all =
        [record(7, messages), record(6, response.as_bytes()), record(6, b""), record(3, &[0; 8])];
    stream.write_all(&all.concat()).await
}
