//! What a run does: the options, checked, with everything that they name.

mod fields;
mod targets;
mod warnings;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use quiche::h3;

use crate::options::LoadArgs;
use crate::protocol::Protocol;
use crate::schedule::{Pace, Playback};
use crate::session_file::SessionFile;
use targets::{Targets, read};

/// Number of requests of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestCount {
    /// All connections together make so many.
    Total(u64),
    /// Each connection makes so many, of a script.
    PerConnection(u64),
}

/// A run.
pub(crate) struct Plan {
    /// Options of the command line.
    pub(crate) options: LoadArgs,
    pub(crate) protocol: Protocol,
    /// Addresses of the server, in the order of the resolver.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Name of the server for TLS; none if it is an address.
    pub(crate) server_name: Option<String>,
    /// Field sections of the requests, which each connection sends in turn.
    pub(crate) heads: Vec<Vec<h3::Header>>,
    /// Offsets at which each connection sends them, if a script has them.
    pub(crate) script: Option<Arc<[Duration]>>,
    /// Number of requests; none if the run has a duration.
    pub(crate) requests: Option<RequestCount>,
    /// Body of each request.
    pub(crate) body: Option<Bytes>,
    /// Responses have no body, whatever their heads announce (HEAD).
    pub(crate) without_bodies: bool,
    /// A request may be repeated without harm (RFC 9110 §9.2.2).
    pub(crate) is_idempotent: bool,
    /// A request may be sent in early data (RFC 8470 §4, RFC 9110 §9.2.1).
    pub(crate) is_safe: bool,
    /// File of a session, if there is TLS.
    pub(crate) session_file: Option<SessionFile>,
}

impl Plan {
    /// Reads files and resolves names.
    ///
    /// # Errors
    /// Options contradict each other, or something that they name cannot be used.
    pub(crate) fn new(options: &LoadArgs) -> anyhow::Result<Plan> {
        check(options)?;
        let Targets { origin, paths, offsets } = Targets::new(options)?;
        let requests = requests(options, offsets.as_deref())?;
        let protocol = Protocol::choose(options, origin.is_secure)?;
        let body =
            options.data.as_deref().map(|file| read(file, u64::MAX)).transpose()?.map(Bytes::from);
        let (host, port) = match &options.connect_to {
            Some((host, port)) => (host.as_str(), port.unwrap_or(origin.port)),
            None => (origin.host.as_str(), origin.port),
        };
        let addresses = (host, port).to_socket_addrs();
        let addresses = addresses.with_context(|| format!("cannot resolve {host}"))?;
        let addresses: Vec<_> = addresses.collect();
        ensure!(!addresses.is_empty(), "{host} has no address");
        let addresses = reachable(addresses, options)?;
        let own_name = origin.ip().is_none().then(|| origin.host.clone());
        let shared = fields::shared(options, &origin, body.as_deref())?;
        let file = options.tls_session_file.as_deref();
        let file = file.filter(|_| protocol.has_tls()).map(SessionFile::open);
        let heads = paths.iter().map(|path| fields::head(&shared, path));
        Ok(Plan {
            protocol,
            addresses,
            server_name: options.sni.clone().or(own_name),
            heads: heads.collect(),
            script: offsets.map(Arc::from),
            requests,
            is_idempotent: fields::method(&shared).is_some_and(|method| method.is_idempotent()),
            is_safe: fields::method(&shared).is_some_and(|method| method.is_safe()),
            session_file: file.transpose()?,
            without_bodies: shared.iter().any(|(n, v)| n == ":method" && v == "HEAD"),
            body,
            options: options.clone(),
        })
    }

    /// Returns whether requests leave on a schedule of all connections.
    pub(crate) fn is_open_loop(&self) -> bool {
        self.options.arrival_rate.is_some()
    }

    /// Returns the rule by which a connection sends its requests.
    pub(crate) fn pace(&self) -> Pace {
        let options = &self.options;
        match (options.arrival_rate, options.rps, &self.script) {
            (Some(_), ..) => Pace::Shared,
            (None, Some(rate), _) => Pace::Rate(rate),
            (None, None, Some(offsets)) => Pace::Script(Playback::new(Arc::clone(offsets))),
            (None, None, None) => Pace::Closed,
        }
    }

    /// Returns whether requests may leave in early data.
    pub(crate) fn sends_early_data(&self) -> bool {
        self.options.early_data && self.is_safe && self.protocol.is_quic()
    }

    /// Returns the number of requests of all connections together, if the run has one.
    pub(crate) fn total(&self) -> Option<u64> {
        self.requests.map(|requests| match requests {
            RequestCount::Total(all) => all,
            RequestCount::PerConnection(each) => each * self.options.clients,
        })
    }
}

/// Returns the addresses that the own addresses of the options can reach, if these are limited.
fn reachable(addresses: Vec<SocketAddr>, options: &LoadArgs) -> anyhow::Result<Vec<SocketAddr>> {
    let Some(local) = &options.local_ips else {
        return Ok(addresses);
    };
    let first = addresses.first().copied();
    let (reachable, _): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| local.of(0, address.ip()).is_some());
    if let (true, Some(first)) = (reachable.is_empty(), first) {
        let version = if first.is_ipv4() { "IPv4" } else { "IPv6" };
        bail!("--local-ips has no {version} address, and {first} needs one");
    }
    Ok(reachable)
}

/// Refuses options that contradict each other.
fn check(options: &LoadArgs) -> anyhow::Result<()> {
    let (clients, threads) = (options.clients, options.threads);
    ensure!(
        clients >= threads,
        "-c {clients} is less than -t {threads}: each thread needs a connection"
    );
    if let Some(rate) = options.rate {
        ensure!(
            (threads..=clients).contains(&rate),
            "-r {rate} has to be at least -t {threads} and at most -c {clients}"
        );
    }
    ensure!(
        !options.early_data || options.resume || options.tls_session_file.is_some(),
        "--early-data needs a session to resume: add --resume or --tls-session-file FILE"
    );
    Ok(())
}

/// Returns the number of requests, unless the run has a duration. A script of these offsets has a request for each of its lines.
fn requests(
    options: &LoadArgs,
    script: Option<&[Duration]>,
) -> anyhow::Result<Option<RequestCount>> {
    if options.duration.is_some() {
        return Ok(None);
    }
    let clients = options.clients;
    Ok(Some(match (options.requests, script) {
        (Some(0), Some(_)) => bail!("-n 0: each connection needs a request"),
        (each, Some(script)) => {
            let lines = script.len() as u64;
            RequestCount::PerConnection(each.map_or(lines, |each| each.min(lines)))
        }
        (total, None) => {
            let total = total.unwrap_or(1);
            ensure!(
                total >= clients,
                "-n {total} is less than -c {clients}: each connection needs a request"
            );
            RequestCount::Total(total)
        }
    }))
}

#[cfg(test)]
mod tests {
    use quiche::h3::NameValue as _;

    use super::*;
    use crate::options;

    fn plan(line: &str) -> anyhow::Result<Plan> {
        let words: Vec<_> = line.split_whitespace().collect();
        Plan::new(&options::parse(&words).unwrap())
    }

    fn fields(head: &[h3::Header]) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let line = |field: &h3::Header| text(field.name()) + "=" + &text(field.value());
        head.iter().map(line).collect()
    }

    #[test]
    fn requests_have_the_origin_of_the_first_url() {
        let plan = plan("https://127.0.0.1:4433/a http://b.example/b?c /d").unwrap();
        assert_eq!(plan.addresses, ["127.0.0.1:4433".parse().unwrap()]);
        assert_eq!(plan.server_name, None);
        let agent = concat!("user-agent=sluicegate/", env!("CARGO_PKG_VERSION"));
        let with = |path: &'static str| {
            [":method=GET", ":scheme=https", ":authority=127.0.0.1:4433", path, agent]
        };
        let heads: Vec<_> = plan.heads.iter().map(|head| fields(head)).collect();
        assert_eq!(heads, [with(":path=/a"), with(":path=/b?c"), with(":path=/d")]);
    }

    #[test]
    fn base_connect_to_and_sni_override_the_url() {
        let line = "-B https://a.example:1 --connect-to 127.0.0.1 --sni b.example /x";
        let plan = plan(line).unwrap();
        assert_eq!(plan.addresses, ["127.0.0.1:1".parse().unwrap()]);
        assert_eq!(plan.server_name.as_deref(), Some("b.example"));
        assert!(fields(&plan.heads[0]).contains(&":authority=a.example:1".to_owned()));
    }

    #[test]
    fn the_method_and_the_body_of_the_options_are_those_of_requests() {
        let head = plan("-H :method:HEAD https://127.0.0.1/").unwrap();
        assert!(head.without_bodies && head.is_safe);
        let post = plan("-d /dev/null https://127.0.0.1/").unwrap();
        assert!(!post.without_bodies && !post.is_idempotent);
        let fields = fields(&post.heads[0]);
        assert_eq!(fields.last().unwrap(), "content-length=0");
    }

    #[test]
    fn a_base_url_replaces_that_of_every_other() {
        let plan = plan("-B https://127.0.0.1:1 http://a/x https://b:2/y").unwrap();
        assert_eq!(plan.addresses, ["127.0.0.1:1".parse().unwrap()]);
        assert_eq!(plan.heads.len(), 2);
    }

    #[test]
    fn each_connection_makes_the_requests_of_a_script() {
        let file = std::env::temp_dir().join(format!("sluicegate-plan-{}", std::process::id()));
        std::fs::write(&file, "0\thttps://127.0.0.1/\n1\t/\n2\t/\n").unwrap();
        let of_script =
            |words: &str| plan(&format!("{words} -c2 --timing-script-file {}", file.display()));
        for (words, each, total) in [("", 3, 6), ("-n1", 1, 2), ("-n3", 3, 6), ("-n9", 3, 6)] {
            let plan = of_script(words).unwrap();
            let expected = RequestCount::PerConnection(each);
            assert_eq!((plan.requests, plan.total()), (Some(expected), Some(total)), "{words}");
            assert!(matches!(plan.pace(), Pace::Script(_)));
        }
        assert_eq!(of_script("-n0 -D1s").unwrap().total(), None);
        let error = of_script("-n0").map(drop).unwrap_err().to_string();
        std::fs::remove_file(file).unwrap();
        assert_eq!(error, "-n 0: each connection needs a request");
    }

    #[test]
    fn contradictions_are_refused_with_a_remedy() {
        for (line, part) in [
            ("", "no URL"),
            ("-c 2 https://127.0.0.1/", "-n 1 is less than -c 2"),
            ("-t 2 https://127.0.0.1/", "-c 1 is less than -t 2"),
            ("-r 2 https://127.0.0.1/", "at most -c 1"),
            ("--local-ips ::1 https://127.0.0.1/", "no IPv4 address"),
            ("--alpn-list spdy/3 https://127.0.0.1/", "known are"),
            ("ftp://127.0.0.1/", "ftp://127.0.0.1/"),
            ("--h3 http://127.0.0.1/", "use https://"),
            ("/a", "--base-uri"),
            ("-i /nowhere/urls", "cannot read /nowhere/urls"),
            ("--timing-script-file /nowhere/s", "cannot read /nowhere/s"),
            ("-d /nowhere/body https://127.0.0.1/", "cannot read /nowhere/body"),
            ("-H :path:/ https://127.0.0.1/", ":path"),
            ("--early-data https://127.0.0.1/", "--resume"),
            ("--tls-session-file /nowhere/s https://127.0.0.1/", "/nowhere/s"),
        ] {
            let error = plan(line).map(drop).unwrap_err();
            assert!(format!("{error:#}").contains(part), "{line}: {error:#}");
        }
    }
}
