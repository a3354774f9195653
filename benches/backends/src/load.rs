//! Load by h2load, the HTTP load generator of nghttp2, built with HTTP/3.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::figures::percentile;

/// Requests to send.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// Length of a response's body, bytes.
    pub(crate) body: usize,
    connections: usize,
    /// Requests under way on a connection.
    streams: usize,
    /// Requests per second and connection; as many as possible without it.
    pub(crate) rate: Option<usize>,
}

impl Workload {
    pub(crate) const SMALL: Self = Self {
        name: "1 KiB requests",
        body: 1 << 10,
        connections: 16,
        streams: 32,
        rate: None,
    };
    pub(crate) const LARGE: Self = Self {
        name: "1 MiB bodies",
        body: 1 << 20,
        connections: 4,
        streams: 4,
        rate: None,
    };
    pub(crate) const LIGHT: Self = Self {
        name: "light load",
        body: 1 << 10,
        connections: 8,
        streams: 1,
        rate: Some(100),
    };
}

/// The load generator.
#[derive(Debug)]
pub(crate) struct LoadGenerator {
    pub(crate) program: PathBuf,
    pub(crate) core: usize,
    /// File for its log.
    pub(crate) log: PathBuf,
}

/// Outcome of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) succeeded: f64,
    /// Times from request to the end of the response, microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl LoadGenerator {
    /// Checks that the program is there and has HTTP/3.
    pub(crate) fn check(&self) -> Result<()> {
        let output = Command::new(&self.program).arg("--help").output();
        let there =
            output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("--h3"));
        ensure!(
            there,
            "{} is no h2load with HTTP/3; build nghttp2 with --enable-http3 and name its h2load by --h2load",
            self.program.display()
        );
        Ok(())
    }

    /// Runs a workload to its end.
    pub(crate) fn run(
        &self,
        workload: &Workload,
        server: SocketAddr,
        seconds: f64,
    ) -> Result<Outcome> {
        let mut command = self.command(workload, server, seconds);
        if workload.rate.is_some() {
            let _ = fs::remove_file(&self.log);
            command.arg(format!("--log-file={}", self.log.display()));
        }
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let succeeded = succeeded(&said).with_context(|| {
            format!("h2load: {said}{}", String::from_utf8_lossy(&output.stderr))
        })?;
        let times = if workload.rate.is_some() {
            times(&fs::read_to_string(&self.log)?)
        } else {
            Vec::new()
        };
        Ok(Outcome {
            succeeded,
            p50: percentile(&times, 50),
            p99: percentile(&times, 99),
        })
    }

    /// Starts a workload whose outcome does not matter.
    pub(crate) fn start(
        &self,
        workload: &Workload,
        server: SocketAddr,
        seconds: f64,
    ) -> Result<Child> {
        let mut command = self.command(workload, server, seconds);
        Ok(command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?)
    }

    fn command(&self, workload: &Workload, server: SocketAddr, seconds: f64) -> Command {
        let mut command = Command::new("taskset");
        command
            .args(["-c", &self.core.to_string()])
            .arg(&self.program)
            .args(["--h3", "-t1"])
            .arg(format!("-D{:.0}ms", seconds * 1e3))
            .arg(format!("-c{}", workload.connections))
            .arg(format!("-m{}", workload.streams));
        if let Some(rate) = workload.rate {
            command.arg(format!("--rps={rate}"));
        }
        command.arg(format!("https://{server}/bytes/{}", workload.body));
        command
    }
}

/// Returns the number of requests that succeeded.
fn succeeded(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("requests: "))?;
    let part = line.split(", ").find(|part| part.ends_with(" succeeded"))?;
    part.split(' ').next()?.parse().ok()
}

/// Returns the times of a log, sorted: lines of start, status and duration in microseconds.
fn times(log: &str) -> Vec<f64> {
    let time = |line: &str| line.split('\t').nth(2)?.parse().ok();
    let mut times: Vec<f64> = log.lines().filter_map(time).collect();
    times.sort_by(f64::total_cmp);
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_and_the_log_are_read() {
        let said = "finished in 1s\nrequests: 9 total, 9 started, 8 done, 7 succeeded, 1 failed, 0 errored, 0 timeout\n";
        assert_eq!(succeeded(said), Some(7.0));
        assert_eq!(succeeded("nothing"), None);
        assert_eq!(times("1\t200\t30\n2\t200\t20\nx\n"), [20.0, 30.0]);
    }
}
