//! Health checks of a pool's upstreams.

use std::time::Duration;

use super::status_range::{STATUSES, StatusRange};
use crate::error::Error;
use crate::field::Record as _;
use crate::schema::{Kind, count, duration, millis, seconds};
use crate::section::Section;
use crate::words::{canonical, host, host_port};

/// Longest path of a check, bytes.
const MAX_PATH: usize = 1024;

table! {
    /// Health checks of the pool above: requests that the server sends to each upstream by itself. Without them it learns
    /// only from clients' requests that an upstream has failed (max_fails). One worker checks for the whole process, each
    /// time on a fresh connection, with the TLS of the pool. The results are in the log and in /metrics. If all upstreams of
    /// a pool are out of rotation, requests go to them nevertheless, as in Envoy: a check that fails everywhere is more
    /// often wrong than right, and then costs nothing.
    #[derive(Eq, PartialOrd, Ord)]
    pub struct HealthCheck = [pool.health_check], check: check {
        /// Path of the requests, with a query if need be. Take one that shows whether the application can work.
        path: Option<String> {
            kind: Kind::Word {
                words: "a path such as \"/healthz\", of up to 1024 visible ASCII characters",
                read: |word| canonical(is_path(word).then_some(word)),
            },
            unset: "upstreams are not checked",
            examples: ["\"/healthz\""],
            reload: Live
        },
        /// Host of the requests.
        host: Option<String> {
            kind: Kind::Word {
                words: "a host with a port or without",
                read: |word| canonical(host_port(word).or_else(|| host(word))),
            },
            unset: "the upstream's own address",
            examples: ["\"app.internal\""],
            reload: Live
        },
        /// Time between two checks of an upstream, varied by a tenth so that checks of many upstreams do not coincide.
        interval: Duration { kind: duration(millis(100), seconds(3600)), default: "\"5s\"", reload: Live },
        /// Time in which a check must have a response.
        timeout: Duration { kind: duration(millis(1), seconds(300)), default: "\"3s\"", reload: Live },
        /// Statuses of a healthy upstream.
        status: Vec<StatusRange> {
            kind: Kind::Words {
                words: STATUSES,
                each: "",
                min: 1,
                max: 16,
                read: |word| canonical(StatusRange::parse(word)),
            },
            default: "[\"200-399\"]",
            examples: ["[\"200\", \"204\"]"],
            reload: Live
        },
        /// Checks in a row that must succeed for an upstream that is out of rotation to return.
        rises: u64 { kind: count(1, 100, "checks"), default: "2", reload: Live },
        /// Checks in a row that must fail for an upstream to leave the rotation. The first check after the start decides
        /// alone.
        falls: u64 { kind: count(1, 100, "checks"), default: "3", reload: Live },
    }
}

/// Refuses settings of checks without a path.
fn check(check: &mut HealthCheck, section: &Section<'_>) -> Result<(), Error> {
    if check.path.is_some() {
        return Ok(());
    }
    let keys = HealthCheck::TABLE.fields.iter().zip(check.values());
    let mut given =
        keys.filter(|(key, value)| key.given.default_toml().as_deref() != value.as_deref());
    match given.next() {
        None => Ok(()),
        Some((key, _)) => {
            let found = format!("`{}` without `path` in [pool.health_check]", key.name);
            let at = section.position(key.name);
            Err(section.source.error(at, found, "the path of the checks, such as \"/healthz\""))
        }
    }
}

/// Returns whether requests can have this path.
fn is_path(word: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte);
    word.starts_with('/') && word.len() <= MAX_PATH && word.bytes().all(fits)
}

impl HealthCheck {
    /// Returns the settings of a pool without checks.
    pub(super) const fn none() -> Self {
        Self {
            path: None,
            host: None,
            interval: Duration::ZERO,
            timeout: Duration::ZERO,
            status: Vec::new(),
            rises: 0,
            falls: 0,
        }
    }
}
