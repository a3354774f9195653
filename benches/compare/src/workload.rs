//! Workloads: a resource, a load, and the figure that is compared.

use sluicegate_compare::generator::Load;

use crate::kind::Resource;

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

/// A workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// Name on the command line.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) resource: Resource,
    pub(crate) path: &'static str,
    pub(crate) figure: Figure,
    /// The load of a measurement of so many seconds. Handshakes take the time that they need.
    pub(crate) load: fn(f64) -> Load,
}

impl Workload {
    pub(crate) const ALL: [Self; 8] = [
        Self::files("small", "1 KiB files, 16 connections of 32 requests", "1k", Load::small),
        Self::files("medium", "10 KiB files, 16 connections of 16 requests", "10k", |seconds| {
            Load::closed(16, 16, seconds)
        }),
        Self {
            figure: Figure::Gbit,
            ..Self::files("large", "1 MiB files, 4 connections of 4 requests", "1m", Load::large)
        },
        Self::files("handshakes", "full handshake and one request", "1k", |_| {
            Load::handshakes(2000, 1000)
        }),
        Self {
            figure: Figure::Times,
            ..Self::files("light", "800 requests per second on 8 connections", "1k", Load::light)
        },
        Self {
            figure: Figure::Memory,
            ..Self::files(
                "idle",
                "500 connections, 250 requests per second in all",
                "1k",
                |seconds| Load::open(500, 0.5, seconds),
            )
        },
        Self {
            resource: Resource::Proxied,
            ..Self::files(
                "proxied-small",
                "1 KiB, proxied, 16 connections of 32 requests",
                "proxied/1k",
                Load::small,
            )
        },
        Self {
            resource: Resource::Proxied,
            figure: Figure::Gbit,
            ..Self::files(
                "proxied-large",
                "1 MiB, proxied, 4 connections of 4 requests",
                "proxied/1m",
                Load::large,
            )
        },
    ];

    const fn files(
        name: &'static str,
        title: &'static str,
        path: &'static str,
        load: fn(f64) -> Load,
    ) -> Self {
        Self { name, title, resource: Resource::File, path, figure: Figure::Requests, load }
    }
}

impl Figure {
    /// Returns the unit.
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
