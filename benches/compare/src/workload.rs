//! Workloads: a resource, a load, and the figure that is compared.

use crate::generator::Load;
use crate::kind::Resource;
use crate::workload::Figure::{Gbit, Memory, Requests, Times};

/// A figure of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Requests per CPU-second of the server.
    Requests,
    /// Gbit of bodies per CPU-second of the server.
    Gbit,
    /// Time of a request, microseconds, at the median and at 99 %.
    Times,
    /// KiB of memory per connection that has nothing to do.
    Memory,
}

/// A load of a measurement of so many seconds, and its name. Handshakes take the time that they need.
type Named = (&'static str, fn(f64) -> Load);

const SMALL: Named = ("16 connections of 32 requests", |seconds| Load::closed(16, 32, seconds));
const MEDIUM: Named = ("16 connections of 16 requests", |seconds| Load::closed(16, 16, seconds));
const LARGE: Named = ("4 connections of 4 requests", |seconds| Load::closed(4, 4, seconds));
const HANDSHAKES: Named = ("full handshake and one request", |_| Load::handshakes(2000, 1000));
const LIGHT: Named =
    ("800 requests per second on 8 connections", |seconds| Load::open(8, 100.0, seconds));
const IDLE: Named =
    ("500 connections, 250 requests per second in all", |seconds| Load::open(500, 0.5, seconds));

/// A workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// Name on the command line.
    pub(crate) name: &'static str,
    body: &'static str,
    pub(crate) path: &'static str,
    pub(crate) figure: Figure,
    load: Named,
}

impl Workload {
    pub(crate) const ALL: [Self; 11] = [
        Self::new("small", "1 KiB files", "1k", Requests, SMALL),
        Self::new("medium", "10 KiB files", "10k", Requests, MEDIUM),
        Self::new("large", "1 MiB files", "1m", Gbit, LARGE),
        Self::new("handshakes", "1 KiB files", "1k", Requests, HANDSHAKES),
        Self::new("light", "1 KiB files", "1k", Times, LIGHT),
        Self::new("idle", "1 KiB files", "1k", Memory, IDLE),
        Self::new("proxied-small", "1 KiB, proxied", "proxied/1k", Requests, SMALL),
        Self::new("proxied-large", "1 MiB, proxied", "proxied/1m", Gbit, LARGE),
        Self::new("generated-small", "1 KiB, generated", "bytes/1024", Requests, SMALL),
        Self::new("generated-large", "1 MiB, generated", "bytes/1048576", Requests, LARGE),
        Self::new("generated-light", "1 KiB, generated", "bytes/1024", Times, LIGHT),
    ];

    const fn new(
        name: &'static str,
        body: &'static str,
        path: &'static str,
        figure: Figure,
        load: Named,
    ) -> Self {
        Self { name, body, path, figure, load }
    }

    /// Returns what it is, for tables.
    pub(crate) fn title(&self) -> String {
        format!("{}, {}", self.body, self.load.0)
    }

    /// Returns the load of a measurement of so many seconds.
    pub(crate) fn load(&self, seconds: f64) -> Load {
        (self.load.1)(seconds)
    }

    /// Returns the kind of what it asks for.
    pub(crate) fn resource(&self) -> Resource {
        match self.path.split_once('/') {
            Some(("proxied", _)) => Resource::Proxied,
            Some(_) => Resource::Generated,
            None => Resource::File,
        }
    }
}

impl Figure {
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Requests => "requests per CPU-second",
            Self::Gbit => "Gbit per CPU-second",
            Self::Times => "µs, median / 99 %",
            Self::Memory => "KiB per connection",
        }
    }

    /// Returns whether more is better.
    pub(crate) fn is_rate(self) -> bool {
        matches!(self, Self::Requests | Self::Gbit)
    }
}
