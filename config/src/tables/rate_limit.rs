//! Rates at which clients may send requests.

use std::fmt;
use std::time::Duration;

use crate::field::{Record, words_in_fields};
use crate::schema::{Kind, Reason, Refusal, Table, count, seconds};
use crate::source::shown;
use crate::value::Word;

/// Most requests in the unit of a rate.
const MAX_COUNT: u64 = 1_000_000;

/// Units of a rate.
const UNITS: [(&str, Duration); 3] = [("s", seconds(1)), ("m", seconds(60)), ("h", seconds(3600))];

table! {
    /// Rate at which each client may send requests to the route above. A request beyond it gets 429 with Retry-After, and
    /// does not count itself. A client is an IPv4 address or an IPv6 /64; behind a proxy in
    /// trusted_proxies of the listener, it is the one that the proxy names. All threads and all versions of HTTP count
    /// together, and so do all paths of the route. Clients that `allow` and `deny` refuse do not count; requests without
    /// a valid password do. A reload that leaves the limit as it is keeps the counts.
    /// sluicegate_http_requests_refused_total{reason="rate_limit"} counts the refused requests.
    #[derive(Eq)]
    pub struct RateLimit = [route.rate_limit] {
        /// Requests of a client in the long run: a number for each second (s), minute (m) or hour (h).
        rate: Rate {
            kind: Kind::Word {
                words: "a number from 1 to 1000000 with a unit, such as \"10/s\", \"600/m\" or \"1000/h\"",
                read: rate,
            },
            required: "\"10/s\"",
            examples: ["\"600/m\""],
            reload: Live
        },
        /// Requests that a client may send at once after a pause. Each of them takes as long to come back as `rate` says. Set it
        /// to what a page needs at its first visit, or to 1 to spread requests evenly.
        burst: Option<u64> {
            kind: count(1, 1_000_000, ""),
            unset: "the number in `rate`",
            examples: ["50"],
            reload: Live
        },
        /// Clients that are counted at a time for this limit, in 24 bytes each, which are taken at the start; an active one takes the place of one that has been idle for
        /// longer, which then may send its whole `burst` again. Raise it if more clients than that are active while a
        /// burst comes back.
        clients: u64 { kind: count(1024, 1 << 20, ""), default: "65536", examples: ["1000000"], reload: Live },
    }
}

impl RateLimit {
    /// The same keys in the table of a site.
    pub(crate) const OF_SITES: &'static Table = &Table {
        name: "site.rate_limit",
        summary: "Rate at which each client may send requests to the site above, whatever its routes. The keys are those of \
                  [route.rate_limit].",
        ..*Self::TABLE
    };

    /// Returns the number of requests that a client may send at once.
    pub fn burst(&self) -> u64 {
        self.burst.unwrap_or(self.rate.count)
    }
}

/// Number of requests in a unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests in the unit, 1 to 1,000,000.
    pub count: u64,
    /// The unit: a second, a minute or an hour.
    pub unit: Duration,
}

impl fmt::Display for Rate {
    /// Writes the rate as a file does: `10/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, unit)| *unit == self.unit);
        write!(f, "{}/{}", self.count, unit.map_or("s", |(name, _)| name))
    }
}

impl Word for Rate {
    fn of_canonical(word: String) -> Option<Self> {
        let (number, name) = word.split_once('/')?;
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        let count = number.parse().ok().filter(|_| is_plain)?;
        let (_, unit) = UNITS.iter().find(|(known, _)| *known == name)?;
        (1..=MAX_COUNT).contains(&count).then_some(Self { count, unit: *unit })
    }
}

words_in_fields!(Rate);

/// Reads a rate, and suggests the form of one that is written as for nginx, `10r/s`, or with the whole word.
fn rate(word: &str) -> Result<String, Refusal> {
    let canonical = |word: &str| Rate::of_canonical(word.to_owned()).map(|rate| rate.to_string());
    if let Some(word) = canonical(word) {
        return Ok(word);
    }
    let meant = word.split_once('/').and_then(|(number, unit)| {
        let letter = unit.trim().get(..1)?;
        canonical(&format!("{}/{letter}", number.trim_end_matches(['r', ' '])))
    });
    Err(meant.map_or_else(Refusal::default, |meant| {
        Refusal::because(Reason {
            found: format!("\"{}\" for `rate`", shown(word)),
            expected: "a number and a unit, s, m or h".to_owned(),
            nearest: Some(meant),
        })
    }))
}
