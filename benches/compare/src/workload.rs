//! Workloads: a resource, a load, and the figure that is compared.

use crate::generator::{Handshake, Load, Protocol};
use crate::kind::{Resource, Upstream};
use crate::site::Key;
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
/// HTTP/1.1 has one request at a time on a connection.
const SINGLE: Named = ("64 connections of a request", |seconds| Load::closed(64, 1, seconds));
const HANDSHAKES: Named = ("full handshake and one request", |_| Load::handshakes(2000, 1000));
const LIGHT: Named =
    ("800 requests per second on 8 connections", |seconds| Load::open(8, 100.0, seconds));
const LONE: Named =
    ("200 requests per second on a connection", |seconds| Load::open(1, 200.0, seconds));
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
    protocol: Protocol,
    handshake: Handshake,
    /// Kind of the certificate's key.
    pub(crate) key: Key,
}

impl Workload {
    pub(crate) const ALL: [Self; 23] = [
        Self::new("small", "1 KiB files", "1k", Requests, SMALL),
        Self::new("medium", "10 KiB files", "10k", Requests, MEDIUM),
        Self::new("large", "1 MiB files", "1m", Gbit, LARGE),
        Self::new("handshakes", "1 KiB files", "1k", Requests, HANDSHAKES),
        Self::new("resumptions", "1 KiB files", "1k", Requests, HANDSHAKES).by(Handshake::Resumed),
        Self::new("handshakes-mlkem", "1 KiB files", "1k", Requests, HANDSHAKES)
            .by(Handshake::PostQuantum),
        Self::new("handshakes-rsa", "1 KiB files", "1k", Requests, HANDSHAKES).with(Key::Rsa),
        Self::new("light", "1 KiB files", "1k", Times, LIGHT),
        Self::new("lone", "1 KiB files", "1k", Times, LONE),
        Self::new("idle", "1 KiB files", "1k", Memory, IDLE),
        Self::new("proxied-small", "1 KiB, proxied", "proxied/1k", Requests, SMALL),
        Self::new("proxied-large", "1 MiB, proxied", "proxied/1m", Gbit, LARGE),
        Self::new("proxied-unix", "1 KiB, proxied", "unix/1k", Requests, SMALL),
        Self::new("proxied-h2c", "1 KiB, proxied", "h2c/1k", Requests, SMALL),
        Self::new("h2-small", "1 KiB files", "1k", Requests, SMALL).over(Protocol::Http2),
        Self::new("h2-large", "1 MiB files", "1m", Gbit, LARGE).over(Protocol::Http2),
        Self::new("h2-handshakes", "1 KiB files", "1k", Requests, HANDSHAKES).over(Protocol::Http2),
        Self::new("h2-idle", "1 KiB files", "1k", Memory, IDLE).over(Protocol::Http2),
        Self::new("h1-small", "1 KiB files", "1k", Requests, SINGLE).over(Protocol::Http1),
        Self::new("h1-proxied-small", "1 KiB, proxied", "proxied/1k", Requests, SINGLE)
            .over(Protocol::Http1),
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
        let (protocol, handshake, key) = (Protocol::Http3, Handshake::Full, Key::Ecdsa);
        Self { name, body, path, figure, load, protocol, handshake, key }
    }

    const fn over(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    const fn by(self, handshake: Handshake) -> Self {
        Self { handshake, ..self }
    }

    const fn with(self, key: Key) -> Self {
        Self { key, ..self }
    }

    /// Returns the workload of this name.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|workload| workload.name == name).unwrap()
    }

    /// Returns what it is, for tables.
    pub(crate) fn title(&self) -> String {
        let mut title = self.body.to_owned();
        title += match self.protocol {
            Protocol::Http3 => "",
            Protocol::Http2 => " over HTTP/2",
            Protocol::Http1 => " over HTTP/1.1 and TLS",
        };
        title += match self.resource() {
            Resource::Proxied(Upstream::Unix) => " over a Unix socket",
            Resource::Proxied(Upstream::H2c) => " over HTTP/2",
            Resource::Proxied(Upstream::Tcp) | Resource::File | Resource::Generated => "",
        };
        title += ", ";
        title += match self.handshake {
            Handshake::Full | Handshake::PostQuantum => self.load.0,
            Handshake::Resumed => "resumption and one request",
        };
        if self.handshake == Handshake::PostQuantum {
            title += ", X25519MLKEM768";
        }
        if self.key == Key::Rsa {
            title += ", RSA-2048";
        }
        title
    }

    /// Returns the load of a measurement of so many seconds.
    pub(crate) fn load(&self, seconds: f64) -> Load {
        let Self { protocol, handshake, .. } = *self;
        Load { protocol, handshake, ..(self.load.1)(seconds) }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn handshake(&self) -> Handshake {
        self.handshake
    }

    /// Returns whether each measurement has a server of its own: fresh, or with another certificate.
    pub(crate) fn needs_twin(&self) -> bool {
        self.figure == Memory || self.key != Key::Ecdsa
    }

    /// Returns the kind of what it asks for.
    pub(crate) fn resource(&self) -> Resource {
        match self.path.split_once('/') {
            Some(("proxied", _)) => Resource::Proxied(Upstream::Tcp),
            Some(("unix", _)) => Resource::Proxied(Upstream::Unix),
            Some(("h2c", _)) => Resource::Proxied(Upstream::H2c),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_titles_differ() {
        for (number, workload) in Workload::ALL.iter().enumerate() {
            for other in &Workload::ALL[..number] {
                assert_ne!(workload.name, other.name);
                assert_ne!(workload.title(), other.title(), "{} {}", workload.name, other.name);
            }
        }
    }

    #[test]
    fn a_load_has_the_protocol_and_the_handshake_of_its_workload() {
        let load = Workload::named("h1-proxied-small").load(1.0);
        assert_eq!((load.protocol, load.streams), (Protocol::Http1, 1));
        let load = Workload::named("resumptions").load(1.0);
        assert_eq!((load.protocol, load.handshake), (Protocol::Http3, Handshake::Resumed));
        let load = Workload::named("handshakes-mlkem").load(1.0);
        assert_eq!(load.handshake, Handshake::PostQuantum);
        assert_eq!(Workload::named("small").load(1.0).handshake, Handshake::Full);
    }

    #[test]
    fn fresh_servers_and_other_certificates_need_a_twin() {
        let twins = Workload::ALL.into_iter().filter(Workload::needs_twin);
        let twins: Vec<&str> = twins.map(|workload| workload.name).collect();
        assert_eq!(twins, ["handshakes-rsa", "idle", "h2-idle"]);
    }

    #[test]
    fn the_path_names_the_way_to_the_upstream() {
        let resource = |name| Workload::named(name).resource();
        assert_eq!(resource("proxied-unix"), Resource::Proxied(Upstream::Unix));
        assert_eq!(resource("proxied-h2c"), Resource::Proxied(Upstream::H2c));
        assert_eq!(resource("h1-proxied-small"), Resource::Proxied(Upstream::Tcp));
        assert_eq!(resource("h2-small"), Resource::File);
    }

    #[test]
    fn the_manual_has_each_workload() {
        let manual = include_str!("../../README.md");
        for workload in Workload::ALL {
            let name = format!("`{}`", workload.name);
            assert!(manual.contains(&name), "{name}");
        }
    }
}
