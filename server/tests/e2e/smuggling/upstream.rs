//! An HTTP/1.1 server that takes bytes literally and reports each message as it came.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Longest wait for a connection's end.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// A request with this in its first line is not answered.
pub(super) const NEVER: &str = "/never";

/// Events of connections, in order.
enum Event {
    Opened,
    /// A message in full; one that is not answered, as far as its head.
    Message(Vec<u8>),
    /// It is over, with what had come of another message.
    Closed(Vec<u8>),
}

/// The server.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    events: Receiver<Event>,
    open: usize,
    messages: Vec<Vec<u8>>,
    /// Messages that never became whole.
    pub(super) cut: Vec<Vec<u8>>,
}

impl Upstream {
    pub(super) fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                // Reported before any message, and by the thread that accepts, so that no connection is overlooked.
                let _ = sender.send(Event::Opened);
                std::thread::spawn(move || serve(stream, &sender));
            }
        });
        Upstream { address, events, open: 0, messages: Vec::new(), cut: Vec::new() }
    }

    /// Messages since the last call.
    pub(super) fn messages(&mut self) -> Vec<Vec<u8>> {
        while let Ok(event) = self.events.try_recv() {
            self.note(event);
        }
        std::mem::take(&mut self.messages)
    }

    /// The same, once all connections are over.
    pub(super) fn last_messages(&mut self) -> Vec<Vec<u8>> {
        let mut messages = self.messages();
        while self.open > 0 {
            let event = self.events.recv_timeout(WAIT_LIMIT);
            self.note(event.expect("connections end with the server"));
        }
        messages.extend(self.messages());
        messages
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Opened => self.open += 1,
            Event::Message(bytes) => self.messages.push(bytes),
            Event::Closed(rest) => {
                self.open -= 1;
                if !rest.is_empty() {
                    self.cut.push(rest);
                }
            }
        }
    }
}

fn serve(mut stream: TcpStream, sender: &Sender<Event>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while let Some(end) = message_end(&bytes) {
            let message: Vec<u8> = bytes.drain(..end).collect();
            let answer = !first_line(&message).contains(NEVER);
            // Reported before the response, so that whoever sees the response finds it.
            let _ = sender.send(Event::Message(message));
            if answer {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            }
        }
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    let _ = sender.send(Event::Closed(bytes));
}

fn first_line(message: &[u8]) -> String {
    let line = message.split(|byte| *byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(line).into_owned()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Returns where the first message ends, if all of it is there. A coding of the body goes before its length, as a careless server
/// would have it.
fn message_end(bytes: &[u8]) -> Option<usize> {
    let head = find(bytes, b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let value = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    if value("transfer-encoding").is_some() {
        let mut at = head;
        loop {
            let size_end = at + find(&bytes[at..], b"\r\n")?;
            let size = std::str::from_utf8(&bytes[at..size_end]).ok()?;
            let size = usize::from_str_radix(size, 16).ok()?;
            at = size_end + 2;
            if size == 0 {
                // Trailers, and an empty line.
                if bytes[at..].starts_with(b"\r\n") {
                    return Some(at + 2);
                }
                return Some(at + find(&bytes[at..], b"\r\n\r\n")? + 4);
            }
            at += size + 2;
            bytes.get(..at)?;
        }
    }
    let length = value("content-length").map_or(Some(0), |length| length.parse().ok())?;
    let end = head + length;
    (bytes.len() >= end).then_some(end)
}

/// A message taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) line: String,
    /// Fields, without those that describe the way of the request.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: String,
    pub(super) trailers: Vec<(String, String)>,
}

impl Message {
    /// Takes a message apart and checks that there is but one way to read it.
    pub(super) fn read(bytes: &[u8]) -> Message {
        let end = find(bytes, b"\r\n\r\n").unwrap();
        let head = lines(&bytes[..end]);
        let (line, fields) = head.split_first().unwrap();
        assert_eq!(line.matches(' ').count(), 2, "{line:?}");
        assert!(line.ends_with(" HTTP/1.1"), "{line:?}");
        let mut fields = pairs(fields);
        let count = |name: &str| fields.iter().filter(|(known, _)| known == name).count();
        assert_eq!(count("host"), 1, "{fields:?}");
        assert_eq!(count("x-request-id"), 1, "{fields:?}");
        let chunked = count("transfer-encoding");
        assert!(chunked + count("content-length") <= 1, "{fields:?}");
        let (body, trailers) = match chunked {
            0 => (bytes[end + 4..].to_vec(), Vec::new()),
            _ => unchunked(&bytes[end + 4..]),
        };
        let told =
            |name: &str| name.contains("forwarded") || matches!(name, "via" | "x-request-id");
        fields.retain(|(name, _)| !told(name));
        fields.sort();
        Message { line: line.clone(), fields, body: String::from_utf8(body).unwrap(), trailers }
    }
}

/// Returns the lines of a head, without anything in them that some take for the end of a line.
fn lines(head: &[u8]) -> Vec<String> {
    let text = String::from_utf8(head.to_vec()).unwrap();
    let lines: Vec<String> = text.split("\r\n").map(str::to_owned).collect();
    for line in &lines {
        assert!(!line.chars().any(|c| c.is_ascii_control() && c != '\t'), "{line:?}");
    }
    lines
}

fn pairs(lines: &[String]) -> Vec<(String, String)> {
    let pairs = lines.iter().map(|line| {
        let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?}"));
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        assert!(!name.is_empty() && name.bytes().all(token), "{line:?}");
        assert_eq!(value, value.trim(), "{line:?}");
        (name.to_ascii_lowercase(), value.to_owned())
    });
    pairs.collect()
}

fn unchunked(mut bytes: &[u8]) -> (Vec<u8>, Vec<(String, String)>) {
    let mut body = Vec::new();
    loop {
        let end = find(bytes, b"\r\n").unwrap();
        let size = std::str::from_utf8(&bytes[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        bytes = &bytes[end + 2..];
        if size == 0 {
            let rest = bytes.strip_suffix(b"\r\n").unwrap();
            let rest = rest.strip_suffix(b"\r\n").unwrap_or(rest);
            let trailers = if rest.is_empty() { Vec::new() } else { lines(rest) };
            return (body, pairs(&trailers));
        }
        body.extend_from_slice(&bytes[..size]);
        bytes = bytes[size..].strip_prefix(b"\r\n").unwrap();
    }
}
