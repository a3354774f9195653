//! Active health checks of an upstream.

use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::time::Duration;

use http::HeaderValue;
use http::header::{CONNECTION, HOST, USER_AGENT};
use sluicegate_config::HealthCheck;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use super::failure::Failure;
use super::interim::Interims;
use super::upload::{Upload, UploadBody};
use super::upstream::Upstream;
use super::upstream_head::{InvalidValue, UpstreamHead};

/// Longest time before the first check of an upstream.
const FIRST: Duration = Duration::from_secs(1);

static THIS_SERVER: HeaderValue = HeaderValue::from_static(env!("CARGO_PKG_NAME"));
static CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Reason for which a check has failed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum CheckError {
    #[error("{}", .0.text())]
    Failed(Failure),
    #[error("it responded with status {0}")]
    Status(u16),
    #[error("it took too long to respond")]
    Timeout,
    #[error("no request can be made of the path and the host")]
    Request,
}

impl From<Failure> for CheckError {
    fn from(failure: Failure) -> CheckError {
        CheckError::Failed(failure)
    }
}

/// Results in a row that speak against the verdict.
#[derive(Debug, Default)]
struct Contrary {
    count: u64,
    /// Whether there was a result before.
    any: bool,
}

impl Contrary {
    /// Takes a result, and returns whether the verdict changes.
    fn on_result(&mut self, is_ok: bool, is_down: bool, check: &HealthCheck) -> bool {
        let is_first = !std::mem::replace(&mut self.any, true);
        self.count = if is_ok == is_down { self.count + 1 } else { 0 };
        let needed = match (is_down, is_first) {
            (true, _) => check.rises,
            (false, true) => 1,
            (false, false) => check.falls,
        };
        let changes = self.count >= needed;
        if changes {
            self.count = 0;
        }
        changes
    }
}

/// Checks an upstream until the task is cancelled. The log names the pool that has the upstream.
pub(super) async fn run(upstream: Rc<Upstream>, check: HealthCheck, pool: String) {
    let mut contrary = Contrary::default();
    let label = upstream.label();
    let mut pause = random_up_to(check.interval.min(FIRST));
    loop {
        sleep(pause).await;
        let begun = Instant::now();
        let result = timeout(check.timeout, once(&upstream, &check)).await;
        let result = result.unwrap_or(Err(CheckError::Timeout));
        upstream.count_check(result.is_ok());
        let verdict = upstream.verdict();
        let changes = contrary.on_result(result.is_ok(), verdict.is_down(), &check);
        if changes {
            verdict.set_down(result.is_err());
        }
        match (result, changes) {
            (Ok(()), true) => {
                tracing::info!(pool, upstream = %label, "an upstream is back in rotation: its health checks succeed");
            }
            (Err(error), true) => {
                tracing::warn!(pool, upstream = %label, "an upstream is out of rotation: its health check failed: {error}");
            }
            (Ok(()), false) => {}
            (Err(error), false) => {
                tracing::debug!(pool, upstream = %label, "a health check failed: {error}");
            }
        }
        let tenth = check.interval / 10;
        let next = check.interval - tenth + random_up_to(2 * tenth);
        pause = next.saturating_sub(begun.elapsed());
    }
}

/// Makes one check, on a fresh connection.
async fn once(upstream: &Upstream, check: &HealthCheck) -> Result<(), CheckError> {
    let path = check.path.as_deref().unwrap_or("/").as_bytes();
    let head = UpstreamHead::new("GET", 0, |target| target.extend_from_slice(path));
    let mut head = head.map_err(|_| CheckError::Request)?;
    let host = check.host.as_deref().unwrap_or(upstream.host()).as_bytes();
    let written = head.write(&HOST, |text| text.extend_from_slice(host));
    written.map_err(|InvalidValue| CheckError::Request)?;
    head.push(&USER_AGENT, &THIS_SERVER);
    head.push(&CONNECTION, &CLOSE);
    let mut stream = upstream.stream_for_check(check.timeout).await?;
    let sent = stream.send(&head, UploadBody(Upload::none()));
    sent.map_err(|_| CheckError::Request)?;
    let interims = Interims::default();
    let response = std::future::poll_fn(|cx| stream.poll_response(cx, &interims)).await?;
    let status = response.status.as_u16();
    let healthy = |known: &sluicegate_config::StatusRange| known.has(status);
    if check.status.iter().any(healthy) { Ok(()) } else { Err(CheckError::Status(status)) }
}

/// Returns a random time of at most `limit`.
fn random_up_to(limit: Duration) -> Duration {
    // The keys of the hasher are random, and others for each.
    let random = RandomState::new().hash_one(0u8);
    let limit = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX - 1);
    Duration::from_micros(random % (limit + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_changes_after_results_in_a_row() {
        let check = HealthCheck {
            path: Some("/".to_owned()),
            host: None,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            status: Vec::new(),
            rises: 2,
            falls: 3,
        };
        for (results, verdicts) in [
            ("+--+---", "uuuuuud"),
            ("+---+-++", "uuuddddu"),
            ("-++", "ddu"),
            ("-+-++--+", "dddduuuu"),
        ] {
            let (mut contrary, mut is_down) = (Contrary::default(), false);
            let mut seen = String::new();
            for result in results.chars() {
                is_down ^= contrary.on_result(result == '+', is_down, &check);
                seen.push(if is_down { 'd' } else { 'u' });
            }
            assert_eq!(seen, verdicts, "{results}");
        }
    }

    #[test]
    fn pauses_differ_and_have_a_limit() {
        let limit = Duration::from_millis(10);
        let pauses: Vec<_> = (0..1000).map(|_| random_up_to(limit)).collect();
        assert!(pauses.iter().all(|pause| *pause <= limit));
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
        assert_eq!(random_up_to(Duration::ZERO), Duration::ZERO);
    }
}
