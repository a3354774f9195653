//! Errors of the start and of a reload.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sluicegate_dataplane::{BindError, OpenError, PortError};
use thiserror::Error;

use super::bind_tcp::TcpBindError;
use super::passed::PassedError;
use super::takeover::TakeoverError;

use sluicegate_base::secrets::SecretsError;
use sluicegate_base::tls::TlsError;
use sluicegate_http::route::SiteError;
use sluicegate_quic::cid::CidError;
use sluicegate_quic::congestion::selection::UnknownAlgorithm;
use sluicegate_quic::transport::TransportError;

use crate::admin::AdminError;
use crate::snapshot::WorkerConfigError;
use crate::telemetry::CollectorError;

/// Error that keeps the server from starting, or ends it early. Its text names the place; the error's source, if there
/// is one, says the cause and the remedy.
#[derive(Debug, Error)]
pub enum BootError {
    /// The secrets cannot be loaded.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// Connection IDs cannot be made as they are configured.
    #[error(transparent)]
    Cid(#[from] CidError),
    /// A route cannot be compiled.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// A listener cannot be opened.
    #[error("listener `{listener}` at {addresses}")]
    Listener {
        /// Name of the listener.
        listener: String,
        /// Addresses that the error is about, with commas between them.
        addresses: String,
        /// The cause.
        source: ListenerError,
    },
    /// The sockets of a group cannot be opened.
    #[error("group `{group}`")]
    Group {
        /// Name of the group.
        group: String,
        /// The cause.
        source: BindError,
    },
    /// A worker cannot open the sockets of a reload.
    #[error("group `{group}`: {cause}")]
    Rebind {
        /// Name of the group.
        group: String,
        /// The cause.
        cause: OpenError,
    },
    /// A worker has not opened the sockets of a reload in time.
    #[error(
        "group `{group}`: a worker did not open the sockets of added listeners within {limit:?}"
    )]
    RebindTimeout {
        /// Name of the group.
        group: String,
        /// Time for it.
        limit: Duration,
    },
    /// The port of a group cannot be opened.
    #[error("group `{group}`")]
    Port {
        /// Name of the group.
        group: String,
        /// The cause.
        source: PortError,
    },
    /// A group names a core that the process cannot use.
    #[error(
        "group `{group}`: core {core} does not exist or is not allowed here; allowed: {allowed:?}"
    )]
    NoCore {
        /// Name of the group.
        group: String,
        /// The core.
        core: usize,
        /// Cores that the process may use.
        allowed: Vec<usize>,
    },
    /// A group has more workers than connection IDs can name.
    #[error("group `{group}`: more than 256 cores; split it into several groups")]
    TooManyCores {
        /// Name of the group.
        group: String,
    },
    /// No group has a listener.
    #[error("no listener uses any group: nothing to serve; add a [[listener]]")]
    NothingToServe,
    /// The process before does not say what it hands over.
    #[error(transparent)]
    TakeoverOffer(#[from] TakeoverError),
    /// The process before is gone, or the system gives no thread.
    #[error("cannot take over from the process before: {0}")]
    Takeover(#[source] io::Error),
    /// The sockets that a service manager passed cannot be taken over.
    #[error(transparent)]
    Passed(#[from] PassedError),
    /// The admin address cannot be served.
    #[error("`admin.address`")]
    Admin(#[source] AdminError),
    /// A folder that must be there is not.
    #[error("`{table}.{key}`: {} is no folder; {advice}", path.display())]
    NoFolder {
        /// Table of the key that names it.
        table: &'static str,
        /// Key that names it.
        key: &'static str,
        /// Path of the folder.
        path: PathBuf,
        /// Remedy.
        advice: &'static str,
    },
    /// A folder stands where the access log should.
    #[error("`access_log.file`: {} is a folder; name a file in it", .0.display())]
    LogIsFolder(PathBuf),
    /// The access log cannot be opened.
    #[error(
        "`access_log.file`: cannot open {name}; its folder must be there, and may need other permissions"
    )]
    AccessLog {
        /// Name of the file.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// Spans cannot be sent to the collector of the configuration.
    #[error(transparent)]
    Telemetry(#[from] CollectorError),
    /// The system gives no thread.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The system accepts no signal handlers.
    #[error("cannot watch signals")]
    Signals(#[source] io::Error),
    /// The sleep of the host's cores cannot be bounded.
    #[error(
        "`server.cpu_latency`: cannot write to /dev/cpu_dma_latency; run as root, give the server's user the device, or remove the key"
    )]
    Latency(#[source] io::Error),
    /// Real-time workers would keep all cores.
    #[error(
        "workers with `spin` or `spin_always` and a real-time `scheduler` have all cores, and nothing else could run: list fewer in \
         `cores`, or set `scheduler = \"normal\"`"
    )]
    NoCoreLeft,
    /// A worker cannot start: one line with cause and remedy.
    #[error("{0}")]
    Worker(String),
    /// A worker ended before all of them served.
    #[error("a worker stopped while starting")]
    WorkerStopped,
    /// A worker was not ready in time.
    #[error("a worker did not start within {0:?}")]
    WorkerTimeout(Duration),
}

impl BootError {
    pub(super) fn listener(
        name: &str,
        addresses: &[SocketAddr],
        source: impl Into<ListenerError>,
    ) -> BootError {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        BootError::Listener {
            listener: name.to_owned(),
            addresses: addresses.join(", "),
            source: source.into(),
        }
    }
}

/// Error that keeps a listener from being opened.
#[derive(Debug, Error)]
pub enum ListenerError {
    /// The congestion control algorithm does not exist.
    #[error(transparent)]
    Algorithm(#[from] UnknownAlgorithm),
    /// A certificate or another setting of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// quiche refused a setting of the transport.
    #[error(transparent)]
    Transport(TransportError),
    /// The address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The address cannot be bound for TCP.
    #[error(transparent)]
    BindTcp(#[from] TcpBindError),
    /// Sockets that a service manager passed for the address cannot be taken over.
    #[error(transparent)]
    Passed(#[from] PassedError),
    /// A reload adds an address of passed sockets whose duplicates the workers have not closed yet.
    #[error(
        "the workers still close the sockets of the listener that had the address; reload again"
    )]
    Closing,
    /// A reload gives the listener a group that had no listener at the start.
    #[error(
        "group `{group}` has no workers, because it had no listener when the server started; restart the server"
    )]
    NoWorkers {
        /// Name of the group.
        group: String,
    },
    /// A reload changes the addresses of a port that the server drives itself.
    #[error(
        "the port of a group with the backend dpdk keeps its addresses while the server runs; restart the server"
    )]
    OnPort,
    /// Listeners have more addresses than can be numbered.
    #[error("more than 65536 listening addresses")]
    TooManyAddresses,
}

impl From<TransportError> for ListenerError {
    /// What is wrong with TLS is the same error whether or not QUIC found it, so that it leads to the same place in the file.
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Tls(error) => Self::Tls(error),
            error @ TransportError::Engine(_) => Self::Transport(error),
        }
    }
}

/// Error that keeps a reloaded configuration from taking effect.
#[derive(Debug, Error)]
pub enum ReloadError {
    /// There is no file.
    #[error("it is part of the binary; start with `-c FILE` to be able to change it")]
    Embedded,
    /// The file has mistakes.
    #[error("{}", mistakes(.0))]
    Config(sluicegate_config::Error),
    /// These keys have changed.
    #[error("{} cannot change while the server runs; restart it", .0.join(", "))]
    NeedsRestart(Vec<String>),
    /// Something that the file names, such as a certificate or an address, cannot be used.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// A certificate or another setting of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A worker's part of the configuration cannot be made.
    #[error(transparent)]
    Worker(#[from] WorkerConfigError),
}

impl From<sluicegate_config::Error> for ReloadError {
    fn from(error: sluicegate_config::Error) -> Self {
        Self::Config(error)
    }
}

impl ReloadError {
    /// Returns the error for a terminal: each mistake of a file in a line.
    pub(super) fn lines(&self) -> String {
        let ReloadError::Config(error) = self else {
            return one_line(self);
        };
        let each: Vec<_> = error.each().map(ToString::to_string).collect();
        each.join("\n")
    }
}

/// Returns all mistakes of a file in one line.
fn mistakes(error: &sluicegate_config::Error) -> String {
    let each: Vec<_> = error.each().map(ToString::to_string).collect();
    each.join("; ")
}

/// Returns an error and its sources as one line. A source that an error before it has in its text is not said twice.
pub fn one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        source = cause.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_place_and_the_cause() {
        let addresses = ["127.0.0.1:1", "[::1]:2"].map(|address| address.parse().unwrap());
        let error = BootError::listener("main", &addresses, ListenerError::TooManyAddresses);
        let line = "listener `main` at 127.0.0.1:1, [::1]:2: more than 65536 listening addresses";
        assert_eq!(one_line(&error), line);
        let keys = vec!["log.level".to_owned(), "admin.address".to_owned()];
        let error = ReloadError::NeedsRestart(keys).to_string();
        assert!(error.starts_with("log.level, admin.address cannot change while the server runs"));
    }

    #[test]
    fn a_cause_is_said_once_even_if_errors_above_it_repeat_it() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let tcp = crate::boot::bind_tcp::bind(address, 1).unwrap_err();
        let admin =
            AdminError::Os { address, source: io::Error::from_raw_os_error(libc::EADDRINUSE) };
        for error in [
            BootError::listener("main", &[address], ListenerError::BindTcp(tcp)),
            BootError::Admin(admin),
        ] {
            let line = one_line(&error);
            assert_eq!(line.matches("Address already in use").count(), 1, "{line}");
        }
        let context = anyhow::Error::from(io::Error::other("the cause")).context("the place");
        assert_eq!(one_line(&*context), "the place: the cause");
    }

    #[test]
    fn a_refused_reload_names_every_mistake() {
        let registry = sluicegate_cc::Registry::builtin();
        let text = "[[listener]]\nnam = \"a\"\naddress = \"127.0.0.1:0\"\ntls = \"self-signed\"\n";
        let error = sluicegate_config::Config::from_toml("file", text, &registry).unwrap_err();
        let line = one_line(&ReloadError::from(error));
        assert_eq!(line.matches("unknown key `nam`").count(), 1, "{line}");
        assert_eq!(line.matches("[[listener]] has no `name`").count(), 1, "{line}");
    }
}
