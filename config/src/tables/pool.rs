//! Pools of upstream servers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::UpstreamTls;
use super::hash_by::hash_by;
use super::pool_upstream::{ADDRESS, MAX_UPSTREAMS, PoolUpstream, Upstreams};
use super::upstream::upstream_address;
use super::{HashBy, HealthCheck, ProxyProtocolVersion, UpstreamAddress, proxy_protocol};
use crate::congestion::CongestionControl;
use crate::error::Error;
use crate::field::{self, Part, Record, tables_as_parts};
use crate::schema::{
    Given, KIB, Key, Kind, MIB, Refusal, Reload, choice, count, duration, millis, name, seconds,
    size,
};
use crate::section::Section;
use crate::words::canonical;

table! {
    /// A pool of upstream servers, to which routes refer by its name: `proxy = { pool = "app" }`. All these routes use
    /// the same connections and see the same failures. A route with servers of its own needs no pool: `upstreams` of
    /// [route.proxy] lists them, and the settings below stand there, too.
    #[derive(Eq)]
    pub struct Pool = [[pool]], check: check_pool {
        /// Name of the pool, which routes and the log use.
        name: String { kind: name(), required: "\"app\"", reload: Live },
        /// Upstream servers with their ports; after http:// the port may be left out and is then 80.
        /// Connections to a server whose address begins with https:// or h3:// are encrypted; its port is 443 if none
        /// is given. Keep other servers on this host or on a private network. Servers with
        /// https:// choose between HTTP/2 and HTTP/1.1 (see http2); h3:// stands for HTTP/3, over UDP, where
        /// no request waits for what another has lost; h2c:// stands for HTTP/2 without TLS, as
        /// most gRPC servers speak it; all others get HTTP/1.1. For a server on this host that listens on a
        /// Unix socket, write unix: and the socket's path, or h2c://unix: and the path for HTTP/2; the user of Sluicegate
        /// needs write permission on the socket. An upstream with https:// that resets a stream of HTTP/2 because it requires
        /// HTTP/1.1 gets that from then on.
        upstreams: Upstreams {
            kind: Kind::WordsOrTables {
                words: ADDRESS,
                table: PoolUpstream::TABLE,
                max: MAX_UPSTREAMS,
                read: upstream_address,
            },
            required: "\"127.0.0.1:8080\"",
            examples: [
                "[\"10.0.0.1:8080\", \"10.0.0.2:8080\"]",
                "\"https://app.internal\"",
                "\"h3://origin.example\"",
                "\"h2c://10.0.0.1:50051\"",
                "\"unix:/run/app.sock\"",
                "\"h2c://unix:/run/app.sock\"",
                "[\"10.0.0.1:8080\", { address = \"10.0.0.2:8080\", backup = true }]"
            ],
            reload: Live
        },
        /// Health checks of the upstreams: the table [pool.health_check] below.
        health_check: HealthCheck { kind: Kind::Table(HealthCheck::TABLE), unset: "upstreams are not checked", reload: Live },
        ..
        /// Settings of all upstreams.
        settings: PoolSettings,
    }
}

table! {
    /// Settings of a pool. They stand in `[[pool]]`, or in [route.proxy] beside `upstreams`.
    #[derive(Eq)]
    pub struct PoolSettings = [pool], check: check_settings {
        /// How requests are shared out among the upstreams. round_robin: in turn. least_requests: to the one with the
        /// fewest requests that are not finished. random_two: to the one of two random upstreams that has fewer of
        /// them. hash: requests with the same client address, field or cookie go to the same upstream, see hash_by;
        /// if upstreams come or go, only their own share of the requests moves. Each worker shares out and counts its
        /// own requests. Take least_requests or random_two if some requests take much longer than others.
        balance: Balance { kind: choice(Balance::WORDS), default: "\"round_robin\"", reload: Live },
        /// Part of a request that chooses its upstream with `balance = "hash"`: the client's address, a field or a
        /// cookie. Requests without that field or cookie take turns.
        hash_by: HashBy {
            kind: Kind::Word {
                words: "\"client_address\", \"field NAME\" or \"cookie NAME\"",
                read: hash_by,
            },
            default: "\"client_address\"",
            examples: ["\"field x-user\"", "\"cookie session\""],
            reload: Live
        },
        /// Largest number of unfinished requests of an upstream with `balance = "hash"`, as a percentage of its fair
        /// share of those of the pool. Requests beyond it go to the next upstream of their hash, and return later. 0
        /// means no limit, so that a session never changes its upstream. Set it, to 125 for example, if upstreams
        /// keep caches and a few keys get most requests. Each worker counts its own requests, so the limit needs
        /// several unfinished ones per upstream and worker; with fewer, it moves requests without need.
        hash_load: u64 { kind: count(0, 1000, "percent"), default: "0", examples: ["125"], reload: Live },
        /// Time in which the share of an upstream that was out of rotation grows from a tenth to its weight. 0s gives
        /// it all at once. Set it for upstreams that are slow at first, such as those with a cache to fill.
        slow_start: Duration { kind: duration(seconds(0), seconds(3600)), default: "\"0s\"", examples: ["\"30s\""], reload: Live },
        /// Idle connections that each worker keeps open to each upstream for keepalive_timeout; with 0 each request opens
        /// a new one. Those beyond it, which a burst of requests leaves, stay open for five seconds, so that the next
        /// burst finds them. Raise it for many short requests; lower it for upstreams that use a thread per connection.
        keepalive: u64 { kind: count(0, 4096, "connections"), default: "32", reload: Live },
        /// Time after which an idle connection is closed. Keep it below the upstream's own timeout, so that no request
        /// is sent on a connection that the upstream is closing.
        keepalive_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// Age at which a connection serves no further request, so that requests follow an upstream whose name has got
        /// other addresses, and reach all machines behind a balancer. 0s means any age.
        keepalive_max_age: Duration { kind: duration(seconds(0), seconds(7 * 86_400)), default: "\"1h\"", reload: Live },
        /// Name servers that know the upstreams' names, with port 53 if none is given. Names in /etc/hosts need none. Name
        /// servers are asked again when the time to live of their records is over, and when no address of a name could be
        /// reached; if they do not respond, the addresses found last stay in use. Connections begin with each address of a
        /// name in turn, and go on to the next one after 250 ms, IPv4 and IPv6 alternately.
        resolver: Vec<SocketAddr> {
            kind: Kind::Words {
                words: "an address such as \"10.0.0.2\" or \"[2001:db8::53]:5353\"",
                each: "",
                min: 1,
                max: 8,
                read: name_server,
            },
            unset: "the name servers of /etc/resolv.conf",
            examples: ["\"10.0.0.2\"", "[\"10.0.0.2:53\", \"[2001:db8::53]:53\"]"],
            reload: Live
        },
        /// Largest number of requests that an upstream handles at a time, from all workers together, for each upstream that
        /// has no max_connections of its own. Over HTTP/1.1 each of them has a connection, over HTTP/2 a stream. A
        /// WebSocket counts as long as it is open. Idle connections come on top, as in nginx and HAProxy: lower keepalive
        /// if they must not. Further requests go to upstreams that have room, or wait in the queue; backups get none of
        /// them. If it is 8 or more, a client alone gets about seven eighths, so that it keeps nobody out. 0 means no
        /// limit. Set it to what the upstream can handle at a time, such as its number of threads, if it gets slow with
        /// more.
        max_connections: u64 { kind: count(0, 65_536, "requests"), default: "0", examples: ["64"], reload: Live },
        /// Largest number of requests that wait, in all workers together, while every upstream has max_connections. They go
        /// to the upstream that first has room, whatever balance is. The clients that wait take turns, each with its
        /// requests in the order of their arrival. If it is 8 or more, a client alone gets about seven eighths. Beyond it,
        /// clients get 503 at once. With 0 none waits. It has no effect without max_connections.
        queue: u64 { kind: count(0, 65_536, "requests"), default: "1024", reload: Live },
        /// Longest time that a request waits in the queue; then the client gets 503. Keep it below the patience of clients:
        /// what is served after they have left is work for nobody.
        queue_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"5s\"", reload: Live },
        /// Limit on retries: this percentage of the requests to the upstreams, and ten retries per second for each
        /// worker besides. It keeps retries from multiplying the load when all upstreams fail.
        /// sluicegate_proxy_retries_refused_total counts the requests that fail because no retry was left. With 0, only
        /// the ten per second remain; `retries = 0` forbids them, too.
        retry_budget: u64 { kind: count(0, 100, "percent"), default: "20", reload: Live },
        /// Failures in a row after which an upstream gets no requests for fail_timeout; 0 means never. If all upstreams
        /// are in that state, they are tried nevertheless.
        max_fails: u64 { kind: count(0, 1000, "failures"), default: "3", reload: Live },
        /// Time for which an upstream that failed max_fails times gets no requests. Raise it if the upstream takes long
        /// to start.
        fail_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"10s\"", reload: Live },
        /// Largest header section of an upstream's response. If it is larger, or has more than 100 fields over
        /// HTTP/1.1, the client gets 502. Raise it for applications that set very large cookies.
        header_bytes: u64 { kind: size(KIB, MIB), default: "\"64KiB\"", reload: Live },
        /// Version of the PROXY protocol by which each connection to an upstream names the client, before TLS and the
        /// request. The upstream must expect it, as nginx does with proxy_protocol behind listen. Such a connection speaks
        /// HTTP/1.1 and carries one request, so keepalive and http2 have no effect; x-forwarded-for tells the same without
        /// that price. Health checks name no client: LOCAL in v2, UNKNOWN in v1.
        proxy_protocol: Option<ProxyProtocolVersion> {
            kind: proxy_protocol::VERSION,
            unset: "connections begin with TLS or the request",
            examples: ["\"v2\""],
            reload: Live
        },
        /// Congestion control algorithm of what upstreams with h3:// are sent: requests and their bodies. Responses are sent by
        /// the upstream's own. The algorithms and their options are those of a listener.
        congestion_control: Option<CongestionControl> {
            kind: Kind::CongestionControl,
            unset: "cubic",
            examples: ["\"bbr3\""],
            reload: Live
        },
        ..
        /// TLS to the upstreams.
        tls: UpstreamTls,
    }
}

/// Reads the address of a name server, with a port or without.
fn name_server(word: &str) -> Result<String, Refusal> {
    let with_port = word.parse::<SocketAddr>().ok();
    let address = with_port.filter(|address| address.port() > 0);
    let standard = |address| SocketAddr::new(address, 53);
    canonical(address.or_else(|| word.parse::<IpAddr>().ok().map(standard)))
}

fn check_pool(pool: &mut Pool, section: &Section<'_>) -> Result<(), Error> {
    pool.settings.check(&pool.upstreams, section)
}

impl Pool {
    /// Returns whether keys of the queue differ from their defaults while no upstream has a limit for which a request would
    /// wait.
    pub fn has_unused_queue(&self) -> bool {
        let common = self.settings.max_connections;
        let is_limited = |upstream: &PoolUpstream| upstream.max_connections.unwrap_or(common) > 0;
        let keys = PoolSettings::keys();
        let mut given = keys.iter().zip(Part::values(&self.settings));
        !self.upstreams.0.iter().any(is_limited)
            && given.any(|(key, value)| {
                ["queue", "queue_timeout"].contains(&key.name)
                    && key.given.default_toml().as_deref() != value.as_deref()
            })
    }
}

impl PoolSettings {
    /// Refuses keys that do not fit the upstreams.
    fn check(&self, upstreams: &Upstreams, section: &Section<'_>) -> Result<(), Error> {
        proxy_protocol::check(self.proxy_protocol, upstreams, section)?;
        let has_h3 = upstreams.addresses().any(UpstreamAddress::is_h3);
        if self.congestion_control.is_some() && !has_h3 {
            let at = section.position("congestion_control");
            let found = "`congestion_control` without an upstream that speaks HTTP/3";
            let expected =
                "an upstream such as \"h3://app\"; over TCP, the kernel has the algorithm";
            return Err(section.source.error(at, found, expected));
        }
        self.tls.check(upstreams, section)
    }
}

words! {
    /// Policy by which the upstreams of a pool get requests.
    pub enum Balance {
        /// Upstreams take turns.
        RoundRobin = "round_robin",
        /// The upstream with the fewest unfinished requests is next.
        LeastRequests = "least_requests",
        /// The better one of two random upstreams is next.
        RandomTwo = "random_two",
        /// A part of the request is hashed.
        Hash = "hash",
    }
}

fn check_settings(settings: &mut PoolSettings, section: &Section<'_>) -> Result<(), Error> {
    let refused = |key: &str, found: String, expected: &str| {
        Err(section.source.error(section.position(key), found, expected))
    };
    let unused = [
        ("hash_by", settings.hash_by != HashBy::ClientAddress),
        ("hash_load", settings.hash_load != 0),
    ];
    for (key, given) in unused {
        if given && settings.balance != Balance::Hash {
            let found = format!("`{key}` without `balance = \"hash\"`");
            return refused(key, found, "both of them, or none");
        }
    }
    if (1..=100).contains(&settings.hash_load) {
        let found = format!("`hash_load` is {}", settings.hash_load);
        return refused("hash_load", found, "0, or more than 100 percent");
    }
    Ok(())
}

tables_as_parts!(PoolSettings);

/// Upstreams of a route: a pool with a name, or servers that the route lists itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolChoice {
    /// The pool of a `[[pool]]`.
    Named(Arc<Pool>),
    /// Servers and settings of the route alone. The pool is named after the servers.
    Inline(Arc<Pool>),
}

impl PoolChoice {
    /// Returns the pool.
    pub const fn pool(&self) -> &Arc<Pool> {
        let (Self::Named(pool) | Self::Inline(pool)) = self;
        pool
    }

    /// Returns the pool of a route that lists its servers.
    pub fn inline(upstreams: Upstreams, settings: PoolSettings) -> Self {
        let addresses: Vec<String> = upstreams.addresses().map(ToString::to_string).collect();
        Self::Inline(Arc::new(Pool {
            name: addresses.join(","),
            upstreams,
            health_check: HealthCheck::none(),
            settings,
        }))
    }

    /// Replaces a reference to a pool's name by the pool of that name, or returns the name if there is none.
    pub(crate) fn resolve(&mut self, pools: &[Arc<Pool>]) -> Result<(), String> {
        if let Self::Named(pool) = self {
            let found = pools.iter().find(|known| known.name == pool.name);
            *pool = Arc::clone(found.ok_or_else(|| pool.name.clone())?);
        }
        Ok(())
    }
}

const POOL: Key = Key {
    name: "pool",
    kind: name(),
    given: Given::Unset("`upstreams` lists the servers"),
    examples: &["\"app\""],
    reload: Reload::Live,
    summary: "Name of the [[pool]] that requests go to.",
};

impl Part for PoolChoice {
    fn keys() -> Vec<Key> {
        let of_pool = |key: &&Key| key.name == "upstreams";
        let upstreams = Pool::TABLE.fields.iter().find(of_pool).map(|key| Key {
            kind: Kind::Words {
                words: ADDRESS,
                each: "",
                min: 1,
                max: MAX_UPSTREAMS,
                read: upstream_address,
            },
            given: Given::Either("\"127.0.0.1:8080\"", POOL.name),
            examples: &["[\"10.0.0.1:8080\", \"10.0.0.2:8080\"]"],
            summary: "Upstream servers of this route, as in [[pool]]; weights, backups and health checks need a [[pool]].",
            ..*key
        });
        let settings = PoolSettings::keys()
            .into_iter()
            .map(|key| Key { summary: "The same as in [[pool]], for `upstreams`.", ..key });
        [POOL].into_iter().chain(upstreams).chain(settings).collect()
    }

    fn read(section: &Section<'_>) -> Result<Self, Error> {
        if section.only_one_of(&[POOL.name, "upstreams"], "upstreams")? == "upstreams" {
            let upstreams: Upstreams = field::read(section, "upstreams")?;
            let settings: PoolSettings = Part::read(section)?;
            settings.check(&upstreams, section)?;
            return Ok(Self::inline(upstreams, settings));
        }
        let name: Option<String> = field::read(section, POOL.name)?;
        for key in PoolSettings::keys() {
            if section.raw(key.name).is_some() {
                let found = format!("`{}` beside `pool` in [route.proxy]", key.name);
                let expected = "it in the [[pool]] itself";
                return Err(section.source.error(section.position(key.name), found, expected));
            }
        }
        // The check of the whole file puts the pool of this name here.
        Ok(Self::Named(Arc::new(Pool {
            name: name.unwrap_or_default(),
            upstreams: Upstreams::default(),
            health_check: HealthCheck::none(),
            settings: Part::read(section)?,
        })))
    }

    fn values(&self) -> Vec<Option<String>> {
        match self {
            Self::Named(pool) => {
                let mut values = vec![None; Self::keys().len()];
                values[0] = Some(crate::print::text(&pool.name));
                values
            }
            Self::Inline(pool) => {
                let mut of_pool = Record::values(&**pool);
                of_pool[0] = None;
                let own = |key: &Key| key.name == "health_check";
                if let Some(place) = Pool::TABLE.fields.iter().position(own) {
                    of_pool.remove(place);
                }
                of_pool
            }
        }
    }

    fn needs_restart(&self, _: &Self, _: &str, _: &mut Vec<String>) {}
}
