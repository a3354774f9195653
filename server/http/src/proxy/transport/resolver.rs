//! Looks host names up by DNS, on one thread for the whole process.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{LocalSet, spawn_local};

use sluicegate_base::clock;

/// Lookups at a time, of all origin threads. Further ones wait.
const MAX_LOOKUPS: usize = 64;
/// Largest number of different lists of name servers whose connections and answers are kept.
const MAX_RESOLVERS: usize = 64;
/// Shortest and longest time for which an answer is kept.
const VALIDITY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(86_400));
/// Longest time for which it is kept that a name has no address.
const NEGATIVE_VALIDITY: Duration = Duration::from_secs(5);
/// Files that the lookups depend on. When one of them changes, all answers are forgotten.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// Addresses of a host name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The addresses; none if the name has none, or the lookup failed.
    pub(super) addresses: Vec<IpAddr>,
    /// Time for which they may be used.
    pub(super) valid: Duration,
}

/// Host name to look up.
#[derive(Debug)]
struct Question {
    host: String,
    servers: Vec<SocketAddr>,
    /// Whether what is known already is not good enough.
    fresh: bool,
    reply: oneshot::Sender<Found>,
}

/// The thread that looks names up. It starts with the first lookup.
static LOOKUPS: LazyLock<io::Result<UnboundedSender<Question>>> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (sender, questions) = unbounded_channel();
    let thread = std::thread::Builder::new().name("resolver".to_owned());
    thread.spawn(move || LocalSet::new().block_on(&runtime, serve(questions)))?;
    Ok(sender)
});

/// Returns the addresses of a host, by /etc/hosts or these name servers; without any, by those of /etc/resolv.conf. If it is
/// `fresh`, the name servers are asked in any case.
///
/// A name server that does not respond delays neither reads of files nor other handlers: the lookup runs on a thread of its
/// own.
pub(super) async fn look_up(host: &str, servers: &[SocketAddr], fresh: bool) -> Found {
    let (reply, found) = oneshot::channel();
    let question = Question { host: host.to_owned(), servers: servers.to_vec(), fresh, reply };
    match &*LOOKUPS {
        Ok(sender) => {
            // The thread ends only with the process.
            let _ = sender.send(question);
            found.await.unwrap_or_default()
        }
        Err(error) => {
            tracing::warn!(%error, "no thread for lookups of upstreams' names");
            Found::default()
        }
    }
}

/// Resolvers with the answers that they keep, by their name servers.
#[derive(Default)]
struct Resolvers {
    known: HashMap<Vec<SocketAddr>, TokioResolver>,
    /// Contents of /etc/hosts.
    hosts: Rc<Hosts>,
    /// Times at which the files were changed last.
    changed_at: [Option<SystemTime>; FILES.len()],
}

impl Resolvers {
    /// Returns the resolver that asks these name servers.
    fn with(&mut self, servers: &[SocketAddr]) -> Result<(TokioResolver, Rc<Hosts>), NetError> {
        let changed_at = FILES.map(|file| std::fs::metadata(file).and_then(|m| m.modified()).ok());
        let is_changed = changed_at != self.changed_at;
        if is_changed || self.known.len() > MAX_RESOLVERS {
            self.known.clear();
            // A host without the file has no names in it.
            self.hosts = Rc::new(Hosts::from_system().unwrap_or_default());
            self.changed_at = changed_at;
        }
        if let Some(known) = self.known.get(servers) {
            return Ok((known.clone(), Rc::clone(&self.hosts)));
        }
        let made = make(servers)?;
        self.known.insert(servers.to_vec(), made.clone());
        Ok((made, Rc::clone(&self.hosts)))
    }
}

fn make(servers: &[SocketAddr]) -> Result<TokioResolver, NetError> {
    let given = |servers: &[SocketAddr]| {
        let servers = servers.iter().copied().map(name_server).collect();
        let config = ResolverConfig::from_name_servers(servers);
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let mut builder = if servers.is_empty() {
        // Without the file, the C library asks this host, too (resolv.conf(5)).
        let local = [SocketAddr::from((Ipv4Addr::LOCALHOST, 53))];
        TokioResolver::builder_tokio().unwrap_or_else(|_| given(&local))
    } else {
        given(servers)
    };
    let options = builder.options_mut();
    options.ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
    // The file is asked before: the resolver would add what DNS knows of the other family.
    options.use_hosts_file = ResolveHosts::Never;
    options.positive_min_ttl = Some(VALIDITY.0);
    options.positive_max_ttl = Some(VALIDITY.1);
    options.negative_max_ttl = Some(NEGATIVE_VALIDITY);
    builder.build()
}

/// Returns a name server that is asked over UDP, or over TCP if an answer is too long for that.
fn name_server(address: SocketAddr) -> NameServerConfig {
    let at = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(at);
    NameServerConfig::new(address.ip(), true, connections.into())
}

async fn serve(mut questions: UnboundedReceiver<Question>) {
    let mut resolvers = Resolvers::default();
    let permits = Rc::new(Semaphore::new(MAX_LOOKUPS));
    while let Some(question) = questions.recv().await {
        let (resolver, hosts) = match resolvers.with(&question.servers) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "names of upstreams cannot be looked up");
                continue;
            }
        };
        let permits = Rc::clone(&permits);
        spawn_local(async move {
            let _permit = permits.acquire().await;
            let found = ask(&resolver, &hosts, &question).await;
            // Nobody may wait any more.
            let _ = question.reply.send(found);
        });
    }
}

async fn ask(resolver: &TokioResolver, hosts: &Hosts, question: &Question) -> Found {
    let host = &question.host;
    // Other constructors refuse names such as my_app, which containers have.
    let name = match Name::from_ascii(host) {
        Ok(name) => name,
        Err(error) => {
            tracing::debug!(%error, host, "an upstream's name cannot be looked up");
            return Found::default();
        }
    };
    let pinned = addresses_in(hosts, &name);
    if !pinned.is_empty() {
        return Found { addresses: pinned, valid: VALIDITY.1 };
    }
    if question.fresh {
        for kind in [RecordType::A, RecordType::AAAA] {
            resolver.clear_lookup_cache(name.clone(), kind);
        }
    }
    match resolver.lookup_ip(name).await {
        Ok(answer) => Found {
            addresses: answer.iter().collect(),
            valid: answer.valid_until().saturating_duration_since(clock::now()),
        },
        Err(error) => {
            tracing::debug!(%error, host, "the lookup of an upstream's name failed");
            Found::default()
        }
    }
}

/// Returns the addresses that /etc/hosts has for a name. They are all that it has: as with the C library, DNS adds none.
fn addresses_in(hosts: &Hosts, name: &Name) -> Vec<IpAddr> {
    let kinds = [RecordType::AAAA, RecordType::A];
    let found = kinds.map(|kind| hosts.lookup_static_host(&Query::query(name.clone(), kind)));
    let lookups = found.iter().flatten();
    let records = lookups.flat_map(|lookup| lookup.answers());
    records.filter_map(|record| record.data.ip_addr()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_has_all_addresses_of_its_names() {
        let mut hosts = Hosts::default();
        let text = "192.0.2.5 app.example my_app\n2001:db8::1 both\n192.0.2.6 both\n";
        hosts.read_hosts_conf(text.as_bytes()).unwrap();
        let found = |name: &str| {
            let name = Name::from_ascii(name).unwrap();
            let found = addresses_in(&hosts, &name);
            found.iter().map(IpAddr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found("app.example"), ["192.0.2.5"]);
        assert_eq!(found("both"), ["2001:db8::1", "192.0.2.6"]);
        assert!(found("example").is_empty());
        assert_eq!(found("my_app"), ["192.0.2.5"]);
    }

    /// A thread pool that is full with other work, as with reads of a slow disk, delays no lookup.
    #[test]
    fn lookup_needs_no_blocking_thread_of_the_runtime() {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async {
            let busy = tokio::task::spawn_blocking(move || blocked.recv().is_ok());
            let limit = Duration::from_secs(60);
            let found = tokio::time::timeout(limit, look_up("localhost", &[], false)).await;
            let addresses = found.unwrap().addresses;
            assert!(!addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback));
            release.send(()).unwrap();
            assert!(busy.await.unwrap());
        });
    }
}
