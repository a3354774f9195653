//! `sluicegate get` sends one request over HTTP/3; its options have the letters of curl's.

mod closed;
mod connect;
mod connection;
mod fetch;

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use fetch::{Fetched, Sink};
use sluicegate_load::Url;

/// Exit code if `--fail` turned a status into a failure, as in curl.
const EXIT_FAILED_STATUS: u8 = 22;

/// Fetch a URL over HTTP/3.
#[derive(Clone, Debug, clap::Args)]
pub struct GetArgs {
    /// URL to fetch: https://host[:port]/path
    url: String,
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
        address: address
            .parse()
            .map_err(|_| "expected an IP address at the end")?,
    })
}

impl GetArgs {
    /// Returns the addresses to try, in order.
    fn addresses(&self, url: &Url) -> anyhow::Result<Vec<SocketAddr>> {
        let given = self.resolve.iter();
        let given: Vec<_> = given
            .filter(|r| r.host.eq_ignore_ascii_case(&url.host) && r.port == url.port)
            .map(|r| SocketAddr::new(r.address, r.port))
            .collect();
        if given.is_empty() {
            connect::resolve(url)
        } else {
            Ok(given)
        }
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
    let url = Url::parse(&args.url).with_context(|| format!("cannot fetch {}", args.url))?;
    let result = exchange(args, &url, start, clock, stdout, stderr);
    // Nobody after this reads the turn's time.
    quiche::clock::set(None);
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

/// Connects and fetches; also returns the time when the handshake was complete.
fn exchange(
    args: &GetArgs,
    url: &Url,
    start: Instant,
    clock: fn() -> Instant,
    stdout: &mut impl Write,
    stderr: &mut impl Write,
) -> anyhow::Result<(Instant, Fetched)> {
    let deadline = start + args.max_time;
    let addresses = args.addresses(url)?;
    let mut tls = connect::client_config(args.insecure, args.cacert.as_deref())?;
    let mut note = |line: &str| {
        if args.verbose {
            // A lost note is no reason to stop.
            let _ = writeln!(stderr, "{line}");
        }
    };
    let mut client = connect::connect(url, &addresses, &mut tls, deadline, clock, &mut note)?;
    let handshake = client.now();
    let request = fetch::Request {
        method: if args.head { "HEAD" } else { "GET" },
        authority: url.authority(),
        path: url.path.clone(),
    };
    let mut sink = Sink {
        stdout,
        file: None,
        path: args.output.as_deref(),
        headers: args.include || args.head,
        // The exit code reports a failed status.
        body_below: if args.fail { 400 } else { u16::MAX },
    };
    let fetched = fetch::fetch(&mut client, &request, &mut sink, deadline, &mut note);
    client.close();
    Ok((handshake, fetched?))
}

/// Returns one line: times since `start`, the size of the body, and the rate over the whole time.
fn summary(fetched: &Fetched, start: Instant, handshake: Instant) -> String {
    let since = |time: Instant| time.saturating_duration_since(start).as_secs_f64();
    let total = since(fetched.finished);
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    let rate = if total > 0.0 {
        fetched.bytes as f64 / total / 1e6
    } else {
        0.0
    };
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
            "-m",
            "1.5",
            "-o",
            "x",
            "https://a/",
        ]);
        let args = args.unwrap();
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
            &["--resolve", "a:1", "a"],
            &["--resolve", "a:x:::1", "a"],
            &["--resolve", "a:1:b", "a"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
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
        let expected: Vec<SocketAddr> = vec![
            "[::1]:443".parse().unwrap(),
            "10.0.0.1:443".parse().unwrap(),
        ];
        assert_eq!(args.addresses(&url).unwrap(), expected);
        let other = Url::parse("https://127.0.0.1/").unwrap();
        assert_eq!(
            args.addresses(&other).unwrap(),
            ["127.0.0.1:443".parse().unwrap()]
        );
    }
}
