//! What the servers are asked for, and the figure that counts.

use sluicegate_compare::generator::{Load, Schedule};

use crate::peer::Resource;

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
    connections: usize,
    streams: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Closed,
    /// Requests per second and connection.
    Open(f64),
    /// Connections per second.
    Handshakes(usize),
}

impl Workload {
    pub(crate) const ALL: [Self; 8] = [
        Self::files(
            "small",
            "1 KiB files, 16 connections of 32 requests",
            "1k",
            16,
            32,
        ),
        Self::files(
            "medium",
            "10 KiB files, 16 connections of 16 requests",
            "10k",
            16,
            16,
        ),
        Self {
            figure: Figure::Gbit,
            ..Self::files(
                "large",
                "1 MiB files, 4 connections of 4 requests",
                "1m",
                4,
                4,
            )
        },
        Self {
            kind: Kind::Handshakes(1000),
            ..Self::files(
                "handshakes",
                "full handshake and one request",
                "1k",
                2000,
                1,
            )
        },
        Self {
            figure: Figure::Times,
            kind: Kind::Open(100.0),
            ..Self::files(
                "light",
                "800 requests per second on 8 connections",
                "1k",
                8,
                1,
            )
        },
        Self {
            figure: Figure::Memory,
            kind: Kind::Open(0.5),
            ..Self::files(
                "idle",
                "500 connections, 250 requests per second in all",
                "1k",
                500,
                1,
            )
        },
        Self::proxied(
            "proxied-small",
            "1 KiB, proxied, 16 connections of 32 requests",
            "proxied/1k",
            16,
            32,
        ),
        Self {
            figure: Figure::Gbit,
            ..Self::proxied(
                "proxied-large",
                "1 MiB, proxied, 4 connections of 4 requests",
                "proxied/1m",
                4,
                4,
            )
        },
    ];

    const fn files(
        name: &'static str,
        title: &'static str,
        path: &'static str,
        connections: usize,
        streams: usize,
    ) -> Self {
        Self {
            name,
            title,
            resource: Resource::File,
            path,
            figure: Figure::Requests,
            connections,
            streams,
            kind: Kind::Closed,
        }
    }

    const fn proxied(
        name: &'static str,
        title: &'static str,
        path: &'static str,
        connections: usize,
        streams: usize,
    ) -> Self {
        Self {
            resource: Resource::Proxied,
            ..Self::files(name, title, path, connections, streams)
        }
    }

    pub(crate) const fn connections(&self) -> usize {
        self.connections
    }

    /// Returns the load for a measurement of so many seconds. Handshakes take the time that they need.
    pub(crate) fn load(&self, seconds: f64) -> Load {
        Load {
            connections: self.connections,
            streams: self.streams,
            schedule: match self.kind {
                Kind::Closed => Schedule::Closed { seconds },
                Kind::Open(rate) => Schedule::Open { rate, seconds },
                Kind::Handshakes(rate) => Schedule::Handshakes { rate },
            },
        }
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
