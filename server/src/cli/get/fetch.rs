//! Sends one request and writes the response as it arrives.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};
use sluicegate_quic_client::{BodySent, Event, Header, NameValue as _, readable};

use super::connection::ClientConnection;
use super::progress::ProgressLine;
use super::request::Request;

/// Bytes read from the stream at once.
const CHUNK: usize = 64 * 1024;

/// Facts of a complete response.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    /// Status of the final response.
    pub(super) status: u16,
    /// Target of a redirect.
    pub(super) location: Option<String>,
    /// Bytes of the body.
    pub(super) bytes: u64,
    /// Time when the head of the final response was complete.
    pub(super) first_byte: Instant,
    /// Time when the last byte was received.
    pub(super) finished: Instant,
}

/// Destination of the response.
pub(super) struct Sink<'a, W> {
    pub(super) stdout: &'a mut W,
    /// Open file, made with the first write.
    pub(super) file: Option<File>,
    /// Path of the file, if the response does not go to `stdout`.
    pub(super) path: Option<&'a Path>,
    /// Whether heads are written, too.
    pub(super) headers: bool,
    /// Lowest status whose bodies are not written.
    pub(super) body_below: u16,
    /// Whether redirects are followed, so that their bodies are not written.
    pub(super) follows: bool,
    /// Line that shows how the body advances.
    pub(super) progress: ProgressLine<&'a mut dyn Write>,
}

impl<W: Write> Sink<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let Some(path) = self.path else {
            return self.stdout.write_all(bytes).context("cannot write to standard output");
        };
        let describe = || format!("cannot write to {}", path.display());
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::create(path).with_context(describe)?),
        };
        file.write_all(bytes).with_context(describe)
    }

    fn takes_body(&self, status: u16, location: Option<&String>) -> bool {
        status < self.body_below && !(self.follows && location.is_some())
    }

    /// Ends the body, and makes the file even if the body is empty.
    fn finish(&mut self, fetched: &Fetched) -> anyhow::Result<()> {
        self.progress.finish();
        if self.takes_body(fetched.status, fetched.location.as_ref()) {
            self.write(&[])?;
        }
        self.stdout.flush().context("cannot write to standard output")
    }
}

/// State of the response.
struct Progress {
    stream: u64,
    head: Option<(u16, Instant)>,
    /// Value of the head's `content-length`.
    announced: Option<u64>,
    /// Value of the head's `location`, where the status is that of a redirect.
    location: Option<String>,
    /// Bytes of the request's body that were sent; `None` once there is nothing more to send.
    sent: Option<usize>,
    bytes: u64,
    done: bool,
}

/// Sends `request` over `client` and writes the response to `sink`.
///
/// # Errors
/// The connection or the stream ended before the response did, it can't be written, or `deadline` passed.
pub(super) fn fetch<W: Write>(
    client: &mut ClientConnection,
    request: &Request,
    sink: &mut Sink<'_, W>,
    deadline: Instant,
    note: &mut impl FnMut(&str),
) -> anyhow::Result<Fetched> {
    let mut progress = Progress {
        stream: send(client, request, note)?,
        head: None,
        announced: None,
        location: None,
        sent: request.body.as_ref().map(|_| 0),
        bytes: 0,
        done: false,
    };
    let mut chunk = vec![0; CHUNK];
    loop {
        upload(client, request, &mut progress);
        events(client, &mut progress, &mut chunk, sink, note)?;
        if progress.done {
            let fetched = complete(request, progress, client.now())?;
            sink.finish(&fetched)?;
            return Ok(fetched);
        }
        if let Some(cause) = client.closed() {
            return Err(cause.context(format!("broke off after {} bytes", progress.bytes)));
        }
        if client.now() >= deadline {
            bail!("time is up after {} bytes", progress.bytes);
        }
        client.turn(deadline)?;
    }
}

fn send(
    client: &mut ClientConnection,
    request: &Request,
    note: &mut impl FnMut(&str),
) -> anyhow::Result<u64> {
    let head = request.head();
    for (name, value) in &head {
        note(&format!("> {name}: {}", readable(value)));
    }
    let stream = client.http.request(&head, request.body.is_none());
    stream.context("cannot send the request")
}

/// Sends as much of the request's body as the server takes now.
fn upload(client: &mut ClientConnection, request: &Request, progress: &mut Progress) {
    while let (Some(body), Some(sent)) = (&request.body, progress.sent) {
        match client.http.send_body(progress.stream, &body[sent..], true) {
            BodySent::Bytes(written) => {
                let sent = sent + written;
                progress.sent = (sent < body.len()).then_some(sent);
            }
            BodySent::Blocked => return,
            BodySent::Stopped => progress.sent = None,
        }
    }
}

fn events<W: Write>(
    client: &mut ClientConnection,
    progress: &mut Progress,
    chunk: &mut [u8],
    sink: &mut Sink<'_, W>,
    note: &mut impl FnMut(&str),
) -> anyhow::Result<()> {
    loop {
        let (stream, event) = match client.http.poll() {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(error) => return Err(anyhow!("{} broke HTTP/3: {error:?}", client.peer)),
        };
        if stream != progress.stream {
            continue;
        }
        match event {
            Event::Head(list) => head(client.now(), &list, progress, sink, note)?,
            Event::Body => body(client, progress, chunk, sink)?,
            Event::End { .. } => progress.done = true,
            Event::Reset(code) => bail!("the server reset the response: HTTP/3 code {code:#x}"),
            Event::GoAway => {}
        }
    }
}

/// Processes a field section: interim responses precede the final one, trailers follow it.
fn head<W: Write>(
    now: Instant,
    list: &[Header],
    progress: &mut Progress,
    sink: &mut Sink<'_, W>,
    note: &mut impl FnMut(&str),
) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let mut status = None;
    let (mut announced, mut location) = (None, None);
    for header in list {
        note(&format!("< {}: {}", readable(header.name()), readable(header.value())));
        match header.name() {
            b":status" => status = Some(number(header.value()).context("a status that is none")?),
            b"content-length" => announced = number(header.value()),
            b"location" => location = Some(readable(header.value())),
            _ => {}
        }
        if !header.name().starts_with(b":") {
            text.extend_from_slice(&[header.name(), b": ", header.value(), b"\r\n"].concat());
        }
    }
    if progress.head.is_some() {
        return Ok(());
    }
    let status = status.context("the response has no status")?;
    let status = u16::try_from(status).context("a status that is none")?;
    if sink.headers {
        let mut all = format!("HTTP/3 {status}\r\n").into_bytes();
        all.extend_from_slice(&text);
        all.extend_from_slice(b"\r\n");
        sink.write(&all)?;
    }
    if status >= 200 {
        progress.head = Some((status, now));
        progress.announced = announced;
        progress.location = location.filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308));
    }
    Ok(())
}

fn body<W: Write>(
    client: &mut ClientConnection,
    progress: &mut Progress,
    chunk: &mut [u8],
    sink: &mut Sink<'_, W>,
) -> anyhow::Result<()> {
    let wanted = progress
        .head
        .is_some_and(|(status, _)| sink.takes_body(status, progress.location.as_ref()));
    loop {
        let read = client.http.read_body(progress.stream, chunk);
        let read = read.map_err(|error| anyhow!("cannot read the response: {error:?}"))?;
        if read == 0 {
            return Ok(());
        }
        progress.bytes += read as u64;
        if wanted {
            sink.write(&chunk[..read])?;
            let now = client.now();
            sink.progress.on_bytes(progress.bytes, progress.announced, now);
        }
    }
}

fn complete(request: &Request, progress: Progress, now: Instant) -> anyhow::Result<Fetched> {
    let (status, first_byte) = progress.head.context("the response has no head")?;
    let bodiless = request.method == http::Method::HEAD || status == 304;
    if let Some(announced) = progress.announced.filter(|n| !bodiless && *n != progress.bytes) {
        bail!("the response has {} bytes and announced {announced}", progress.bytes);
    }
    Ok(Fetched {
        status,
        location: progress.location,
        bytes: progress.bytes,
        first_byte,
        finished: now,
    })
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}
