//! `sluicegate get` sends a request over HTTP/3; its options have the letters of curl's.

mod connect;
mod connection;
mod fetch;
mod progress;
mod request;

use std::io::{IsTerminal as _, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use http::Method;
use sluicegate_quic_client::{self as quic_client, Trust, Url};

use fetch::{Fetched, Sink};
use progress::ProgressLine;
use request::{Field, Request};

/// Exit code if `--fail` turned a status into a failure, as in curl.
const EXIT_FAILED_STATUS: u8 = 22;
/// Redirects that are followed, as in curl.
const MAX_REDIRECTS: usize = 50;

/// Fetch a URL over HTTP/3.
#[derive(Clone, Debug, clap::Args)]
pub struct GetArgs {
    /// URL to fetch: https://host[:port]/path
    url: String,
    /// Method of the request; without it GET, or POST with data.
    #[arg(short = 'X', long, value_name = "METHOD", value_parser = request::method, conflicts_with = "head")]
    request: Option<Method>,
    /// Field of the request, "name: value", in place of one that this program sends itself; "name:" sends none. May be given
    /// several times.
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = request::field)]
    headers: Vec<Field>,
    /// Send this data, or @FILE without its line ends, or @- for standard input. Several are joined by &.
    #[arg(short = 'd', long, value_name = "DATA", conflicts_with = "head")]
    data: Vec<String>,
    /// Send this data, or @FILE as it is, or @- for standard input.
    #[arg(long, value_name = "DATA", conflicts_with = "head")]
    data_binary: Vec<String>,
    /// Follow redirects, up to 50.
    #[arg(short = 'L', long)]
    location: bool,
    /// Show no progress on a terminal.
    #[arg(short = 's', long)]
    silent: bool,
    /// Don't check the server's certificate.
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Trust the issuers in this PEM file instead of the system's.
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Write the body to this file instead of standard output.
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the response's headers before its body.
    #[arg(short = 'i', long)]
    include: bool,
    /// Request the headers only (HEAD).
    #[arg(short = 'I', long)]
    head: bool,
    /// Exit with 22 and write no body if the status is 400 or above.
    #[arg(short = 'f', long)]
    fail: bool,
    /// Report each step on standard error.
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Write the times, the size and the rate to standard error.
    #[arg(long)]
    timing: bool,
    /// Fail after this many seconds.
    #[arg(short = 'm', long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    max_time: Duration,
    /// Connect to this address for a host and port.
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = resolution)]
    resolve: Vec<Resolution>,
}

/// A value of `--resolve`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Resolution {
    host: String,
    port: u16,
    address: IpAddr,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && time <= Duration::from_secs(86_400) => Ok(time),
        _ => Err("expected more than 0 and up to 86400 seconds".into()),
    }
}

fn resolution(text: &str) -> Result<Resolution, String> {
    let mut parts = text.splitn(3, ':');
    let (Some(host), Some(port), Some(address)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("expected HOST:PORT:ADDRESS".into());
    };
    let address = address.trim_start_matches('[').trim_end_matches(']');
    Ok(Resolution {
        host: host.to_owned(),
        port: port.parse().map_err(|_| "expected a port after the host")?,
        address: address.parse().map_err(|_| "expected an IP address at the end")?,
    })
}

impl GetArgs {
    /// Returns the request for a URL.
    ///
    /// # Errors
    /// A file of data cannot be read.
    fn to_request(&self, url: &Url) -> anyhow::Result<Request> {
        let body = request::body(&self.data, &self.data_binary)?;
        let usual = match &body {
            Some(_) => Method::POST,
            None if self.head => Method::HEAD,
            None => Method::GET,
        };
        let is_host = |(name, _): &&Field| name == http::header::HOST;
        let host = self.headers.iter().find(is_host);
        let host = host.map(|(_, value)| value.to_str().map(ToOwned::to_owned));
        let fields = self.headers.iter().filter(|field| !is_host(field));
        Ok(Request {
            method: self.request.clone().unwrap_or(usual),
            authority: host.transpose()?.unwrap_or_else(|| url.authority()),
            path: url.path.clone(),
            fields: fields.cloned().collect(),
            body,
        })
    }

    /// Returns the addresses to try, in order.
    fn addresses(&self, url: &Url) -> anyhow::Result<Vec<SocketAddr>> {
        let given = self.resolve.iter();
        let given: Vec<_> = given
            .filter(|r| r.host.eq_ignore_ascii_case(&url.host) && r.port == url.port)
            .map(|r| SocketAddr::new(r.address, r.port))
            .collect();
        if given.is_empty() { connect::resolve(url) } else { Ok(given) }
    }
}

/// Fetches, writes the response to `stdout` (or the file asked for) as it comes, and returns the exit code: 0 for any response, but
/// with `--fail` 22 for a status of 400 or above. Blocks the thread, at most for `--max-time` beyond name resolution.
///
/// # Errors
/// The URL is invalid, its name has no address, the server does not respond or has no HTTP/3, its certificate is not trusted, the
/// response broke off or could not be written, or time is up. The chain of causes makes one line.
pub fn run(
    args: &GetArgs,
    clock: fn() -> Instant,
    stdout: &mut impl Write,
    stderr: &mut impl Write,
) -> anyhow::Result<u8> {
    let start = clock();
    let result = follow(args, start, clock, stdout, stderr);
    // Nobody after this reads the turn's time.
    quic_client::set_time(None);
    let (handshake, fetched) = result.with_context(|| format!("cannot fetch {}", args.url))?;
    if args.timing {
        writeln!(stderr, "{}", summary(&fetched, start, handshake))?;
    }
    if args.fail && fetched.status >= 400 {
        writeln!(stderr, "the server responded with {}", fetched.status)?;
        return Ok(EXIT_FAILED_STATUS);
    }
    Ok(0)
}

/// Fetches, and follows redirects if that is asked for; also returns the time when the handshake of the last one was complete.
fn follow(
    args: &GetArgs,
    start: Instant,
    clock: fn() -> Instant,
    stdout: &mut impl Write,
    stderr: &mut impl Write,
) -> anyhow::Result<(Instant, Fetched)> {
    let deadline = start + args.max_time;
    let mut url = Url::parse(&args.url)?;
    let mut request = args.to_request(&url)?;
    for _ in 0..=MAX_REDIRECTS {
        let (handshake, fetched) =
            exchange(args, &url, &request, deadline, clock, &mut *stdout, &mut *stderr)?;
        let Some(location) = fetched.location.as_ref().filter(|_| args.location) else {
            return Ok((handshake, fetched));
        };
        let next = request::target(&url, location)?;
        request = request.redirected(fetched.status, args.request.is_some(), &url, &next);
        url = next;
    }
    bail!("more than {MAX_REDIRECTS} redirects")
}

/// Connects and fetches; also returns the time when the handshake was complete.
fn exchange(
    args: &GetArgs,
    url: &Url,
    request: &Request,
    deadline: Instant,
    clock: fn() -> Instant,
    stdout: &mut impl Write,
    stderr: &mut impl Write,
) -> anyhow::Result<(Instant, Fetched)> {
    let addresses = args.addresses(url)?;
    let trust = if args.insecure {
        Trust::Anyone
    } else {
        args.cacert.as_deref().map_or(Trust::System, Trust::Issuers)
    };
    let mut config = connect::client_config(trust)?;
    let mut note = |line: &str| {
        if args.verbose {
            // A lost note is no reason to stop.
            let _ = writeln!(stderr, "{line}");
        }
    };
    let mut client = connect::connect(url, &addresses, &mut config, deadline, clock, &mut note)?;
    let handshake = client.now();
    let mut terminal = std::io::stderr();
    let shows = !args.silent && !args.verbose && terminal.is_terminal();
    let shows = shows && (args.output.is_some() || !std::io::stdout().is_terminal());
    let terminal: Option<&mut dyn Write> = if shows { Some(&mut terminal) } else { None };
    let mut sink = Sink {
        stdout,
        file: None,
        path: args.output.as_deref(),
        headers: args.include || args.head,
        // The exit code reports a failed status.
        body_below: if args.fail { 400 } else { u16::MAX },
        follows: args.location,
        progress: ProgressLine::new(terminal, handshake),
    };
    let fetched = fetch::fetch(&mut client, request, &mut sink, deadline, &mut note);
    client.close();
    Ok((handshake, fetched?))
}

/// Returns one line: times since `start`, the size of the body, and the rate over the whole time.
fn summary(fetched: &Fetched, start: Instant, handshake: Instant) -> String {
    let since = |time: Instant| time.saturating_duration_since(start).as_secs_f64();
    let total = since(fetched.finished);
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    let rate = if total > 0.0 { fetched.bytes as f64 / total / 1e6 } else { 0.0 };
    format!(
        "handshake {:.1} ms, first byte {:.1} ms, total {:.1} ms, {} bytes, {rate:.1} MB/s",
        since(handshake) * 1e3,
        since(fetched.first_byte) * 1e3,
        total * 1e3,
        fetched.bytes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        get: GetArgs,
    }

    fn parse(words: &[&str]) -> Result<GetArgs, clap::Error> {
        Line::try_parse_from([&["get"], words].concat()).map(|line| line.get)
    }

    #[test]
    fn letters_are_those_of_curl() {
        let args = parse(&[
            "-k",
            "-i",
            "-f",
            "-v",
            "-I",
            "-L",
            "-s",
            "-H",
            "a: b",
            "-m",
            "1.5",
            "-o",
            "x",
            "https://a/",
        ]);
        let args = args.unwrap();
        assert!(args.location && args.silent && args.headers.len() == 1);
        assert!(args.insecure && args.include && args.fail && args.verbose && args.head);
        assert_eq!(args.max_time, Duration::from_millis(1500));
        assert_eq!(args.output, Some(PathBuf::from("x")));
        assert_eq!(parse(&["a"]).unwrap().max_time, Duration::from_secs(300));
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            &[][..],
            &["-m", "0", "a"],
            &["-m", "-1", "a"],
            &["-m", "nan", "a"],
            &["-m", "1e9", "a"],
            &["-X", "A B", "a"],
            &["-H", "x", "a"],
            &["-I", "-d", "x", "a"],
            &["--resolve", "a:1", "a"],
            &["--resolve", "a:x:::1", "a"],
            &["--resolve", "a:1:b", "a"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn data_makes_a_post_and_a_host_field_the_authority() {
        let url = Url::parse("https://a.example/x").unwrap();
        let request = |words: &[&str]| parse(words).unwrap().to_request(&url).unwrap();
        let get = request(&["u"]);
        assert_eq!((get.method, get.body), (Method::GET, None));
        assert_eq!(request(&["-I", "u"]).method, Method::HEAD);
        let post = request(&["-d", "a=1", "--data", "b=2", "u"]);
        assert_eq!((post.method, post.body.unwrap()), (Method::POST, b"a=1&b=2".to_vec()));
        let put = request(&["-X", "PUT", "-d", "x", "-H", "Host: b.example", "u"]);
        assert_eq!((put.method, &*put.authority, put.fields.len()), (Method::PUT, "b.example", 0));
    }

    #[test]
    fn a_resolution_serves_its_host_and_port_only() {
        let args = parse(&[
            "--resolve",
            "a.example:443:[::1]",
            "--resolve",
            "a.example:443:10.0.0.1",
            "u",
        ]);
        let args = args.unwrap();
        let url = Url::parse("https://A.example/").unwrap();
        let expected: Vec<SocketAddr> =
            vec!["[::1]:443".parse().unwrap(), "10.0.0.1:443".parse().unwrap()];
        assert_eq!(args.addresses(&url).unwrap(), expected);
        let other = Url::parse("https://127.0.0.1/").unwrap();
        assert_eq!(args.addresses(&other).unwrap(), ["127.0.0.1:443".parse().unwrap()]);
    }
}
