//! Parameters of a request for a profile.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::admin::parameters::{self, number, word};

/// Length of a profile, in seconds. A longer one says little more, and its connection would be open for long.
const SECONDS: RangeInclusive<u16> = 1..=60;
/// Samples for each second of CPU time. The kernel looks at a timer of CPU time when its own clock ticks, 250 times a second by
/// default (CONFIG_HZ), and sends one signal however much time has passed.
const FREQUENCY: RangeInclusive<u16> = 1..=250;
/// As of `perf` and pprof; not 100, which would keep step with timers.
const DEFAULT_FREQUENCY: u16 = 99;

/// Parameters of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) kind: Kind,
    pub(super) length: Duration,
    /// Samples for each second of CPU time of the process.
    pub(super) frequency: u16,
    pub(super) format: Format,
    pub(super) threads: Threads,
}

/// Subject of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// CPU time.
    Cpu,
    /// Memory.
    Memory(Memory),
}

/// Memory that a profile shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// All that was allocated while it was recorded.
    Allocated,
    /// By how much that in use has grown meanwhile.
    InUse,
}

impl Kind {
    /// Named as by Go's servers.
    const ALL: [(&'static str, Kind); 3] = [
        ("cpu", Kind::Cpu),
        ("allocs", Kind::Memory(Memory::Allocated)),
        ("heap", Kind::Memory(Memory::InUse)),
    ];

    pub(super) fn name(self) -> &'static str {
        let known = Kind::ALL.iter().find(|(_, kind)| *kind == self);
        known.map_or("", |(name, _)| name)
    }
}

/// Outermost frames of a flame graph of CPU time. pprof has the thread as a label, and needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    /// The workers of a group are one frame.
    Merged,
    /// Each thread is a frame.
    Each,
}

impl Threads {
    const ALL: [(&'static str, Threads); 2] =
        [("merged", Threads::Merged), ("each", Threads::Each)];
}

/// Form of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Flame graph, an image.
    Svg,
    /// Line for each stack.
    Folded,
    /// Message for pprof, compressed by gzip.
    Pprof,
}

impl Format {
    const ALL: [(&'static str, Format); 3] =
        [("svg", Format::Svg), ("folded", Format::Folded), ("pprof", Format::Pprof)];

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Format::Svg => "image/svg+xml",
            Format::Folded => "text/plain; charset=utf-8",
            Format::Pprof => "application/octet-stream",
        }
    }
}

impl Query {
    /// A request for `/debug/flamegraph` without parameters.
    pub(super) const FLAMEGRAPH: Query = Query {
        kind: Kind::Cpu,
        length: Duration::from_secs(10),
        frequency: DEFAULT_FREQUENCY,
        format: Format::Svg,
        threads: Threads::Merged,
    };
    /// A request for `/debug/pprof/profile` without parameters, with the defaults of Go's servers.
    pub(super) const PPROF: Query = Query {
        kind: Kind::Cpu,
        length: Duration::from_secs(30),
        frequency: DEFAULT_FREQUENCY,
        format: Format::Pprof,
        threads: Threads::Merged,
    };

    /// A request for `/debug/pprof/allocs` without parameters.
    pub(super) const PPROF_ALLOCS: Query =
        Query { kind: Kind::Memory(Memory::Allocated), ..Query::PPROF };
    /// A request for `/debug/pprof/heap` without parameters.
    pub(super) const PPROF_HEAP: Query =
        Query { kind: Kind::Memory(Memory::InUse), ..Query::PPROF };

    /// Reads the query of a request's target. What it leaves out is as in `defaults`.
    ///
    /// # Errors
    /// A parameter is unknown, comes twice or has a wrong value; the text names it and what is expected.
    pub(super) fn parse(text: &str, defaults: Query) -> Result<Query, String> {
        let (mut kind, mut seconds, mut frequency) = (None, None, None);
        let (mut format, mut threads) = (None, None);
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let is_second = match name {
                "seconds" => seconds.replace(number(name, value, SECONDS)?).is_some(),
                "frequency" => frequency.replace(number(name, value, FREQUENCY)?).is_some(),
                "format" => format.replace(word(name, value, Format::ALL.into_iter())?).is_some(),
                "threads" => {
                    threads.replace(word(name, value, Threads::ALL.into_iter())?).is_some()
                }
                "profile" => kind.replace(word(name, value, Kind::ALL.into_iter())?).is_some(),
                _ => {
                    return Err(format!(
                        "unknown parameter `{name}`; there are profile, seconds, frequency, threads and format\n"
                    ));
                }
            };
            if is_second {
                return Err(parameters::twice(name));
            }
        }
        let kind = kind.unwrap_or(defaults.kind);
        if kind != Kind::Cpu && frequency.is_some() {
            return Err("`frequency` is for CPU time; leave it out\n".into());
        }
        if kind != Kind::Cpu && threads.is_some() {
            return Err("`threads` is for CPU time; leave it out\n".into());
        }
        Ok(Query {
            kind,
            length: seconds.map_or(defaults.length, |seconds| Duration::from_secs(seconds.into())),
            frequency: frequency.unwrap_or(defaults.frequency),
            format: format.unwrap_or(defaults.format),
            threads: threads.unwrap_or(defaults.threads),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_defaults_and_bounds() {
        let query = |seconds, frequency, format| {
            let length = Duration::from_secs(seconds);
            Ok(Query { kind: Kind::Cpu, length, frequency, format, threads: Threads::Merged })
        };
        let parse = |text| Query::parse(text, Query::FLAMEGRAPH);
        assert_eq!(parse(""), query(10, 99, Format::Svg));
        let pprof = |text| Query::parse(text, Query::PPROF);
        assert_eq!(pprof(""), query(30, 99, Format::Pprof));
        assert_eq!(pprof("seconds=5"), query(5, 99, Format::Pprof));
        let all = "format=pprof&seconds=60&frequency=250";
        assert_eq!(parse(all), query(60, 250, Format::Pprof));
        let least = "seconds=1&&frequency=1&format=folded";
        assert_eq!(parse(least), query(1, 1, Format::Folded));
        let each = parse("threads=each&format=folded").unwrap();
        assert_eq!(each.threads, Threads::Each);
        let kind = |text| parse(text).unwrap().kind;
        assert_eq!(kind("profile=allocs"), Kind::Memory(Memory::Allocated));
        assert_eq!(kind("profile=heap&seconds=1"), Kind::Memory(Memory::InUse));
        let heap = Query::parse("seconds=2", Query::PPROF_HEAP).unwrap();
        assert_eq!((heap.kind, heap.format), (Kind::Memory(Memory::InUse), Format::Pprof));
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_expected() {
        for (text, name, expected) in [
            ("seconds=0", "`seconds`", "from 1 to 60"),
            ("seconds=61", "`seconds`", "from 1 to 60"),
            ("seconds", "`seconds` is ``", "whole number"),
            ("seconds=-1", "`seconds` is `-1`", "whole number"),
            ("seconds=1.5", "`seconds`", "whole number"),
            ("frequency=251", "`frequency`", "from 1 to 250"),
            ("format=png", "`format` is `png`", "svg, folded, pprof"),
            ("seconds=1&seconds=1", "`seconds`", "once"),
            ("kind=heap", "`kind`", "seconds, frequency, threads and format"),
            ("profile=stack", "`profile`", "cpu, allocs, heap"),
            ("profile=heap&frequency=9", "`frequency`", "leave it out"),
            ("threads=all", "`threads` is `all`", "merged, each"),
            ("profile=heap&threads=each", "`threads`", "leave it out"),
        ] {
            let reason = Query::parse(text, Query::FLAMEGRAPH).unwrap_err();
            assert!(reason.contains(name) && reason.contains(expected), "{reason}");
            assert!(reason.ends_with('\n'));
        }
    }
}
