//! Reads the head of a script's response: the header section of CGI (RFC 3875 §6).

use bytes::{Bytes, BytesMut};
use http::header::LOCATION;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::proxy::Failure;

/// Gathers the bytes of a head, up to a limit.
#[derive(Debug)]
pub(super) struct HeadReader {
    gathered: BytesMut,
    limit: usize,
}

impl HeadReader {
    /// Begins a head of at most `limit` bytes.
    pub(super) fn new(limit: u64) -> HeadReader {
        HeadReader {
            gathered: BytesMut::new(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        }
    }

    /// Takes bytes from the front of `piece`, and returns the response once its head is complete; what is left is its body.
    ///
    /// # Errors
    /// The head is too large, or is none.
    pub(super) fn push(&mut self, piece: &mut Bytes) -> Result<Option<Response<()>>, Failure> {
        let from = self.gathered.len().saturating_sub(2);
        self.gathered.extend_from_slice(piece);
        let end = end_of_head(&self.gathered, from);
        if end.unwrap_or(self.gathered.len()) > self.limit {
            return Err(Failure::HeadTooLarge);
        }
        let Some(end) = end else {
            piece.clear();
            return Ok(None);
        };
        let body = self.gathered.split_off(end);
        *piece = body.freeze();
        parse(&self.gathered).map(Some)
    }
}

/// Removes the fields by which scripts command the server in front of them, which clients must not see: they name files. Returns whether one
/// asked for another response than the script's.
pub(super) fn remove_commands(headers: &mut HeaderMap) -> bool {
    let is_command =
        |name: &&HeaderName| *name == "x-sendfile" || name.as_str().starts_with("x-accel-");
    let commands: Vec<_> = headers.keys().filter(is_command).cloned().collect();
    for name in &commands {
        headers.remove(name);
    }
    let mut names = commands.iter();
    names.any(|name| name == "x-accel-redirect" || name == "x-sendfile")
}

/// Returns the place behind the empty line that ends a head, which begins at or behind `from`.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    if bytes.starts_with(b"\n") {
        return Some(1);
    }
    if bytes.starts_with(b"\r\n") {
        return Some(2);
    }
    (from..bytes.len()).find_map(|at| match &bytes[at..] {
        [b'\n', b'\n', ..] => Some(at + 2),
        [b'\n', b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

/// Reads a whole head. Without a status it is 302 with a location, as other servers have it, else 200.
fn parse(head: &[u8]) -> Result<Response<()>, Failure> {
    let mut response = Response::new(());
    let mut status = None;
    for line in head.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.ok_or(Failure::Malformed)?);
        let name = HeaderName::from_bytes(name).map_err(|_| Failure::Malformed)?;
        let value = value[1..].trim_ascii();
        if name == "status" {
            if status.replace(read_status(value)?).is_some() {
                return Err(Failure::Malformed);
            }
            continue;
        }
        let value = HeaderValue::from_bytes(value).map_err(|_| Failure::Malformed)?;
        let added = response.headers_mut().try_append(name, value);
        added.map_err(|_| Failure::HeadTooLarge)?;
    }
    let headers = response.headers();
    if headers.is_empty() && status.is_none() {
        return Err(Failure::Malformed);
    }
    let redirects = headers.contains_key(LOCATION);
    *response.status_mut() = match status {
        Some(status) => status,
        None if redirects => StatusCode::FOUND,
        None => StatusCode::OK,
    };
    Ok(response)
}

/// Reads a status with a reason or without, such as `404 Not Found`.
fn read_status(value: &[u8]) -> Result<StatusCode, Failure> {
    let (code, reason) = value.split_at_checked(3).ok_or(Failure::Malformed)?;
    if !(reason.is_empty() || reason.starts_with(b" ")) {
        return Err(Failure::Malformed);
    }
    StatusCode::from_bytes(code).map_err(|_| Failure::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::BodySize;

    fn read(head: &str) -> Result<Response<()>, Failure> {
        let mut piece = Bytes::copy_from_slice(head.as_bytes());
        let read = HeadReader::new(1000).push(&mut piece);
        read.map(|response| response.expect("a whole head"))
    }

    #[test]
    fn a_head_ends_with_an_empty_line_however_it_arrives() {
        for head in [
            "Status: 404 Not Found\r\nX-A: 1\r\nSet-Cookie: a\r\nset-cookie:b\r\n\r\n",
            "Status: 404\nX-A: 1\nSet-Cookie: a\nset-cookie:b \n\n",
            "X-A:1\r\nStatus: 404 \r\nSet-Cookie: a\r\nset-cookie:b\n\r\n",
        ] {
            let whole = format!("{head}body\n\n");
            for size in 1..whole.len() {
                let mut reader = HeadReader::new(1000);
                let mut pieces = whole.as_bytes().chunks(size);
                let (response, rest) = loop {
                    let mut piece = Bytes::copy_from_slice(pieces.next().unwrap());
                    if let Some(response) = reader.push(&mut piece).unwrap() {
                        break (response, piece);
                    }
                    assert!(piece.is_empty());
                };
                assert_eq!(response.status(), 404);
                assert_eq!(response.headers()["x-a"], "1");
                let cookies: Vec<_> = response.headers().get_all("set-cookie").iter().collect();
                assert_eq!(cookies, ["a", "b"]);
                let body = [rest.to_vec(), pieces.collect::<Vec<_>>().concat()].concat();
                assert_eq!(body, b"body\n\n", "{size}");
            }
        }
    }

    #[test]
    fn the_status_is_200_or_302_where_a_script_states_none() {
        assert_eq!(read("Content-Type: text/html\r\n\r\n").unwrap().status(), 200);
        assert_eq!(read("Location: /a\r\n\r\n").unwrap().status(), 302);
        let created = read("Location: /a\r\nStatus: 201 Created\r\n\r\n").unwrap();
        assert_eq!((created.status().as_u16(), created.headers().len()), (201, 1));
        let announced = read("Content-Length: 7\r\n\r\n").unwrap();
        assert_eq!(BodySize::announced(announced.headers()).length, Some(7));
    }

    #[test]
    fn fields_for_another_server_do_not_reach_the_client() {
        for (head, asks) in [
            ("X-Accel-Redirect: /secret/a.pdf\r\n", true),
            ("X-Sendfile: /srv/secret/a.pdf\r\n", true),
            ("X-Accel-Buffering: no\r\nX-Accel-Expires: 0\r\n", false),
            ("", false),
        ] {
            let mut response = read(&format!("{head}X-A: b\r\n\r\n")).unwrap();
            assert_eq!(remove_commands(response.headers_mut()), asks, "{head}");
            let names: Vec<_> = response.headers().keys().collect();
            assert_eq!(names, ["x-a"], "{head}");
        }
    }

    #[test]
    fn what_is_no_head_is_malformed() {
        for head in [
            "\r\n",
            "\n\n",
            "HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\n",
            "no colon\n\n",
            ": no name\n\n",
            "X A: 1\n\n",
            "X-A : 1\n\n",
            "X-A: 1\n folded\n\n",
            "X-A: \0\n\n",
            "X-A: a\rb\n\n",
            "Status:\n\n",
            "Status: 20\n\n",
            "Status: abc\n\n",
            "Status: 2000\n\n",
            "Status: 099\n\n",
            "Status: 200\nStatus: 404\n\n",
        ] {
            assert_eq!(read(head).unwrap_err(), Failure::Malformed, "{head:?}");
        }
    }

    #[test]
    fn a_head_has_a_limit_whether_it_ends_or_not() {
        let head = |length: usize| format!("X-A: {}\r\n\r\n", "a".repeat(length - 9));
        assert!(read(&head(1000)).is_ok());
        assert_eq!(read(&head(1001)).unwrap_err(), Failure::HeadTooLarge);
        let mut reader = HeadReader::new(1000);
        let push = |reader: &mut HeadReader| reader.push(&mut Bytes::from_static(&[b'a'; 600]));
        assert!(push(&mut reader).unwrap().is_none());
        assert_eq!(push(&mut reader).unwrap_err(), Failure::HeadTooLarge);
    }
}
