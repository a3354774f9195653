//! Kinds of servers: what they serve, and where they come from.

use anyhow::{Result, bail};

use crate::generator::Protocol;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sluicegate,
    Nginx,
    Caddy,
    H2o,
    Haproxy,
    QuicGo,
    Quinn,
    TokioQuiche,
}

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    File,
    /// Made by the server itself.
    Generated,
    Proxied(Upstream),
}

/// Way to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upstream {
    /// HTTP/1.1 over TCP.
    Tcp,
    /// HTTP/1.1 over a Unix socket.
    Unix,
    /// HTTP/2 over TCP without TLS.
    H2c,
}

/// A way to build a server from a package registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// The program of this name in the package in `peers/`, whose feature has the same name.
    Cargo,
    /// The Go module in `peers/` in a folder of this name.
    Go,
    /// A program of a published Go module.
    GoInstall { package: &'static str, version: &'static str },
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Sluicegate,
        Self::Nginx,
        Self::Caddy,
        Self::H2o,
        Self::Haproxy,
        Self::QuicGo,
        Self::Quinn,
        Self::TokioQuiche,
    ];

    /// Returns its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sluicegate => "sluicegate",
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
            Self::H2o => "h2o",
            Self::Haproxy => "haproxy",
            Self::QuicGo => "quic-go",
            Self::Quinn => "quinn",
            Self::TokioQuiche => "tokio-quiche",
        }
    }

    /// Finds a kind by its name.
    pub(crate) fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        let Some(kind) = found else {
            bail!(
                "`{name}` is no kind of server; expected one of {}",
                Self::ALL.map(Self::name).join(", ")
            );
        };
        Ok(kind)
    }

    /// Returns how to build it; None for one that only its own project builds.
    pub(crate) fn recipe(self) -> Option<Recipe> {
        match self {
            Self::Caddy => Some(Recipe::GoInstall {
                package: "github.com/caddyserver/caddy/v2/cmd/caddy",
                version: "v2.11.9",
            }),
            Self::QuicGo => Some(Recipe::Go),
            Self::Quinn | Self::TokioQuiche => Some(Recipe::Cargo),
            Self::Sluicegate | Self::Nginx | Self::H2o | Self::Haproxy => None,
        }
    }

    /// Returns whether it has such resources.
    pub(crate) fn serves(self, resource: Resource) -> bool {
        match self {
            Self::Sluicegate => true,
            Self::Nginx | Self::Caddy | Self::H2o => resource != Resource::Generated,
            Self::Haproxy => matches!(resource, Resource::Proxied(_)),
            Self::QuicGo | Self::Quinn | Self::TokioQuiche => resource == Resource::File,
        }
    }

    /// Returns whether it speaks a protocol.
    pub(crate) fn speaks(self, protocol: Protocol) -> bool {
        match self {
            Self::Sluicegate | Self::Nginx | Self::Caddy | Self::H2o | Self::Haproxy => true,
            Self::QuicGo | Self::Quinn | Self::TokioQuiche => protocol == Protocol::Http3,
        }
    }

    /// Returns the arguments that print the version.
    pub(crate) fn version(self) -> &'static [&'static str] {
        match self {
            Self::Nginx | Self::Haproxy => &["-v"],
            Self::Caddy => &["version"],
            Self::Sluicegate | Self::H2o | Self::QuicGo | Self::Quinn | Self::TokioQuiche => {
                &["--version"]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.name()).unwrap(), kind);
        }
        let error = format!("{:#}", Kind::parse("apache").unwrap_err());
        assert!(error.contains("apache") && error.contains("nginx"));
    }

    #[test]
    fn haproxy_has_no_files_and_libraries_have_no_proxy() {
        assert!(!Kind::Haproxy.serves(Resource::File));
        assert!(Kind::Haproxy.serves(Resource::Proxied(Upstream::Tcp)));
        assert!(Kind::Quinn.serves(Resource::File));
        assert!(!Kind::Quinn.serves(Resource::Proxied(Upstream::Tcp)));
    }

    #[test]
    fn servers_of_libraries_have_no_tcp() {
        assert!(Kind::Haproxy.speaks(Protocol::Http2) && Kind::Nginx.speaks(Protocol::Http1));
        assert!(Kind::Quinn.speaks(Protocol::Http3) && !Kind::Quinn.speaks(Protocol::Http2));
    }
}
