//! Load by h2load of nghttp2, or by another program with its options and output.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::figures::percentile;

/// Requests to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Connections.
    pub(crate) connections: usize,
    /// Requests under way on a connection.
    pub(crate) streams: usize,
    /// When to send them, and when to end.
    pub(crate) schedule: Schedule,
    pub(crate) protocol: Protocol,
    pub(crate) handshake: Handshake,
}

/// Protocol of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http3,
    Http2,
    /// HTTP/1.1 over TLS.
    Http1,
}

/// Handshake of a connection with TLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// By the generator's own choice of a group.
    Full,
    /// With the group X25519MLKEM768.
    PostQuantum,
    /// Of the session that an earlier connection has received. Only `sluicegate load` can resume one.
    Resumed,
}

impl Protocol {
    /// Returns its name in the handshake of TLS.
    fn alpn(self) -> &'static str {
        match self {
            Self::Http3 => "h3",
            Self::Http2 => "h2",
            Self::Http1 => "http/1.1",
        }
    }
}

impl Load {
    /// Returns a load as fast as possible.
    pub(crate) const fn closed(connections: usize, streams: usize, seconds: f64) -> Self {
        Self::new(connections, streams, Schedule::Closed { seconds })
    }

    /// Returns a load of `rate` requests per second and connection, one at a time.
    pub(crate) const fn open(connections: usize, rate: f64, seconds: f64) -> Self {
        Self::new(connections, 1, Schedule::Open { rate, seconds })
    }

    /// Returns a load of `connections` new connections with a request on each, so many per second.
    pub(crate) const fn handshakes(connections: usize, rate: usize) -> Self {
        Self::new(connections, 1, Schedule::Handshakes { rate })
    }

    const fn new(connections: usize, streams: usize, schedule: Schedule) -> Self {
        let (protocol, handshake) = (Protocol::Http3, Handshake::Full);
        Self { connections, streams, schedule, protocol, handshake }
    }
}

/// When requests are sent, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Schedule {
    /// Each as soon as there is room for it, for so many seconds.
    Closed {
        /// Length, seconds.
        seconds: f64,
    },
    /// So many per second on each connection, for so many seconds.
    Open {
        /// Requests per second and connection.
        rate: f64,
        /// Length, seconds.
        seconds: f64,
    },
    /// One on each connection. Connections begin at this rate.
    Handshakes {
        /// Connections per second.
        rate: usize,
    },
}

/// The load generator.
#[derive(Debug)]
pub(crate) struct Generator {
    program: PathBuf,
    /// Whether it can resume sessions.
    resumes: bool,
    /// Words between the program and the options, such as a subcommand.
    words: Vec<String>,
    core: usize,
    /// File for its log.
    log: PathBuf,
}

/// Outcome of a load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// Requests that succeeded.
    pub(crate) succeeded: f64,
    /// Requests that did not.
    pub(crate) failed: f64,
    /// Bytes of bodies.
    pub(crate) bytes: f64,
    /// Median time from request to the end of the response, microseconds. NaN unless the schedule is open.
    pub(crate) p50: f64,
    /// 99th percentile of that time.
    pub(crate) p99: f64,
}

impl Generator {
    /// Returns a generator that runs on a core. `command` is the program, and words to put before the options.
    ///
    /// # Errors
    ///
    /// It does not run, or has no HTTP/3.
    pub(crate) fn new(command: &[&str], core: usize, log: PathBuf) -> Result<Self> {
        let (program, words) = command.split_first().context("no load generator is named")?;
        let program = PathBuf::from(program);
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let output = Command::new(&program).args(&words).arg("--help").output();
        let help = |output: Output| String::from_utf8_lossy(&output.stdout).into_owned();
        let help = output.map(help).unwrap_or_default();
        ensure!(
            help.contains("--alpn-list") && help.contains("--qlog-file-base"),
            "`{}` is no load generator for HTTP/3: name `PROGRAM load` with the program of Sluicegate, or h2load of nghttp2 built \
             with --enable-http3",
            command.join(" ")
        );
        Ok(Self { resumes: help.contains("--resume"), program, words, core, log })
    }

    /// Returns whether it can make such handshakes.
    pub(crate) fn can(&self, handshake: Handshake) -> bool {
        handshake != Handshake::Resumed || self.resumes
    }

    /// Returns its name and version.
    pub(crate) fn version(&self) -> String {
        let output = Command::new(&self.program).arg("--version").output();
        let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let said = said.unwrap_or_default();
        let first = said.lines().next().unwrap_or("unknown");
        [&[first.to_owned()], &self.words[..]].concat().join(" ")
    }

    /// Runs a load to its end.
    ///
    /// # Errors
    ///
    /// The program does not run, its output is not that of h2load, or no request succeeds.
    pub(crate) fn run(&self, load: &Load, url: &str) -> Result<Outcome> {
        self.finish(self.start(load, url)?)
    }

    /// Starts a load.
    ///
    /// # Errors
    ///
    /// The program does not start.
    pub(crate) fn start(&self, load: &Load, url: &str) -> Result<Child> {
        let _ = fs::remove_file(&self.log);
        let mut command = self.command(load, url);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().context("taskset, of util-linux, does not start")
    }

    /// Waits until a load ends.
    ///
    /// # Errors
    ///
    /// As [`Generator::run`].
    pub(crate) fn finish(&self, child: Child) -> Result<Outcome> {
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let program = self.program.display();
        let Some(mut outcome) = outcome(&said) else {
            bail!("{program} prints no summary: {said}{errors}");
        };
        ensure!(outcome.succeeded > 0.0, "{program}: no request succeeded: {said}{errors}");
        // Only an open schedule has a log.
        let times = times(&fs::read_to_string(&self.log).unwrap_or_default());
        outcome.p50 = percentile(&times, 50);
        outcome.p99 = percentile(&times, 99);
        Ok(outcome)
    }

    fn command(&self, load: &Load, url: &str) -> Command {
        let mut command = Command::new("taskset");
        command
            .args(["-c", &self.core.to_string()])
            .arg(&self.program)
            .args(&self.words)
            .arg(format!("--alpn-list={}", load.protocol.alpn()))
            .arg("-t1")
            .arg(format!("-c{}", load.connections))
            .arg(format!("-m{}", load.streams));
        match load.schedule {
            Schedule::Closed { seconds } => command.arg(duration(seconds)),
            Schedule::Open { rate, seconds } => {
                let log = format!("--log-file={}", self.log.display());
                command.args([duration(seconds), format!("--rps={rate}"), log])
            }
            // Periods of 50 ms keep bursts short.
            Schedule::Handshakes { rate } => command
                .arg(format!("-n{}", load.connections))
                .arg(format!("-r{}", (rate / 20).max(1)))
                .arg("--rate-period=50ms"),
        };
        match load.handshake {
            Handshake::Full => {}
            Handshake::PostQuantum => {
                command.arg("--groups=X25519MLKEM768");
            }
            Handshake::Resumed => {
                command.arg("--resume");
            }
        }
        command.arg(url);
        command
    }
}

fn duration(seconds: f64) -> String {
    format!("-D{:.0}ms", seconds * 1e3)
}

/// Reads the summary.
fn outcome(said: &str) -> Option<Outcome> {
    let line = |start: &str| said.lines().find(|line| line.starts_with(start));
    let count = |line: &str, end: &str| -> Option<f64> {
        let part = line.split(", ").find(|part| part.ends_with(end))?;
        let number = part.trim_start_matches("requests: ").split(' ').next()?;
        number.parse().ok()
    };
    let requests = line("requests: ")?;
    let succeeded = count(requests, " succeeded")?;
    let codes = line("status codes: ")?.trim_start_matches("status codes: ");
    // A response of status 404 counts as a success there below 1.69.
    let fine = count(codes, " 2xx")?.min(succeeded);
    let data = line("traffic: ")?.rsplit_once('(')?.1;
    Some(Outcome {
        succeeded: fine,
        failed: count(requests, " failed")? + (succeeded - fine),
        bytes: data.strip_suffix(") data")?.parse().ok()?,
        ..Outcome::default()
    })
}

/// Returns the times of the requests in a log that succeeded, sorted. Its lines have start, status and duration in microseconds.
fn times(log: &str) -> Vec<f64> {
    let time = |line: &str| {
        let mut words = line.split('\t').skip(1);
        let fine = words.next()?.starts_with('2');
        words.next()?.parse().ok().filter(|_| fine)
    };
    let mut times: Vec<f64> = log.lines().filter_map(time).collect();
    times.sort_by(f64::total_cmp);
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_names_its_protocol_and_its_handshake() {
        let generator = Generator {
            program: "load".into(),
            resumes: false,
            words: Vec::new(),
            core: 1,
            log: PathBuf::new(),
        };
        let load = Load::closed(4, 2, 1.0);
        let words = |load: &Load| {
            let command = generator.command(load, "https://a/");
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert!(words(&load).ends_with("load --alpn-list=h3 -t1 -c4 -m2 -D1000ms https://a/"));
        let http1 = Load { protocol: Protocol::Http1, ..load };
        assert!(words(&http1).contains(" --alpn-list=http/1.1 "));
        let hybrid = Load { handshake: Handshake::PostQuantum, ..load };
        assert!(words(&hybrid).contains(" --groups=X25519MLKEM768 "));
        let resumed = Load { handshake: Handshake::Resumed, ..load };
        assert!(words(&resumed).contains(" --resume "));
        assert!(generator.can(Handshake::PostQuantum) && !generator.can(Handshake::Resumed));
    }

    const SAID: &str = "finished in 1.00s, 8.00 req/s, 9.00KB/s\n\
        requests: 10 total, 10 started, 10 done, 8 succeeded, 2 failed, 0 errored, 1 timeout\n\
        status codes: 7 2xx, 0 3xx, 1 4xx, 0 5xx\n\
        traffic: 9.00KB (9216) total, 1.00KB (1024) headers (space savings 95.00%), 8.00KB (8192) data\n";

    #[test]
    fn the_summary_and_the_log_are_read() {
        let outcome = outcome(SAID).unwrap();
        assert_eq!((outcome.succeeded, outcome.failed), (7.0, 3.0));
        assert_eq!(outcome.bytes, 8192.0);
        assert!(super::outcome("nothing").is_none());
        assert_eq!(times("1\t200\t30\n2\t200\t20\n3\t404\t1\nx\n"), [20.0, 30.0]);
    }
}
