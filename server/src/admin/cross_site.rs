//! Refusal of requests that a browser makes for another site.
//!
//! A page of any site can have an operator's browser ask a loopback address, although it cannot read the response: an image
//! whose address is that of a profile suffices to record one.

use std::net::IpAddr;

use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Request, Version};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To read something.
    Look,
    /// To change what the server does.
    Order,
}

/// Returns why a request is refused that reached the local address `local`; `None` if it may read the metrics or the connections, or record a profile.
/// `hosts` are further names by which the address may be asked.
///
/// Browsers say in Sec-Fetch-Site where a request comes from (W3C Fetch Metadata §2.3), but not to each address; in Origin, for
/// some requests (RFC 6454 §7). They say neither if a site points its own name at this host (DNS rebinding). So a loopback
/// address, which needs no other name, takes only addresses, `localhost` and `hosts` for one. So does another address if there are
/// `hosts`, and every address for an order.
pub(super) fn refusal<B>(
    request: &Request<B>,
    local: IpAddr,
    hosts: &[String],
    purpose: Purpose,
) -> Option<&'static str> {
    let headers = request.headers();
    let mut sites = headers.get_all("sec-fetch-site").iter();
    if sites.any(|site| site != "same-origin" && site != "none") {
        return Some("a page of another site asks for this; open the address itself\n");
    }
    let mut given = headers.get_all(HOST).iter();
    let (host, second) = (given.next(), given.next());
    let is_old = host.is_none() && request.version() < Version::HTTP_11;
    if is_old && !headers.contains_key(ORIGIN) {
        // No browser sends such a request.
        return None;
    }
    let Some(host) = host.filter(|_| second.is_none()) else {
        return Some("the request needs one Host header\n");
    };
    let is_of_host = |origin: &[u8]| origin.strip_prefix(b"http://") == Some(host.as_bytes());
    let mut origins = headers.get_all(ORIGIN).iter();
    if origins.any(|origin| !is_of_host(origin.as_bytes())) {
        return Some("a page of another site asks for this; open the address itself\n");
    }
    let Ok(host) = Authority::try_from(host.as_bytes()) else {
        return Some("the Host header is no address\n");
    };
    let name = host.host();
    let is_known =
        is_loopback_name(name) || hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
    let is_bound =
        purpose == Purpose::Order || local.to_canonical().is_loopback() || !hosts.is_empty();
    if is_bound && !is_known {
        return Some(
            "the admin address is asked by this name: use localhost or the IP address as the host, or add the name to `hosts` of \
             [admin]\n",
        );
    }
    None
}

/// Returns whether no site can choose the address that a browser finds for this name.
fn is_loopback_name(name: &str) -> bool {
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost") || address.unwrap_or(name).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn refused(headers: &[(&str, &str)], local: IpAddr) -> bool {
        refused_beside(headers, local, &[])
    }

    fn refused_beside(headers: &[(&str, &str)], local: IpAddr, hosts: &[&str]) -> bool {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut request = Request::builder().uri("/debug/flamegraph");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        refusal(&request.body(()).unwrap(), local, &hosts, Purpose::Look).is_some()
    }

    #[test]
    fn only_browsers_that_show_another_site_are_refused() {
        let host = ("host", "localhost:9180");
        for (site, expected) in [
            ("none", false),
            ("same-origin", false),
            ("same-site", true),
            ("cross-site", true),
            ("", true),
        ] {
            let site = ("sec-fetch-site", site);
            assert_eq!(refused(&[host, site], LOOPBACK), expected, "{site:?}");
            let first = ("sec-fetch-site", "none");
            assert_eq!(refused(&[host, first, site], OTHER), expected, "{site:?}");
        }
        for (origin, expected) in [
            ("http://localhost:9180", false),
            ("https://localhost:9180", true),
            ("http://localhost", true),
            ("http://site.example", true),
            ("null", true),
        ] {
            let origin = ("origin", origin);
            assert_eq!(refused(&[host, origin], LOOPBACK), expected, "{origin:?}");
        }
    }

    #[test]
    fn a_loopback_address_has_no_name_that_a_site_could_choose() {
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped().into();
        for (host, expected) in [
            ("localhost:9180", false),
            ("LocalHost", false),
            ("127.0.0.1:9180", false),
            ("[::1]:9180", false),
            ("site.example:9180", true),
            ("127.0.0.1.site.example", true),
            ("localhost.site.example", true),
            ("[site.example]", true),
        ] {
            let host = [("host", host)];
            assert_eq!(refused(&host, LOOPBACK), expected, "{host:?}");
            assert_eq!(refused(&host, mapped), expected, "{host:?}");
        }
        assert!(!refused(&[("host", "edge1.example:9180")], OTHER));
        // An order changes what the server does, so a site may not choose the name for it anywhere.
        for (host, expected) in [("edge1.example:9180", true), ("192.0.2.1:9180", false)] {
            let request = Request::builder().header("host", host).body(()).unwrap();
            let refused = refusal(&request, OTHER, &[], Purpose::Order).is_some();
            assert_eq!(refused, expected, "{host}");
        }
        // Names of the operator's, and no other where there are some.
        for local in [LOOPBACK, OTHER] {
            for (host, expected) in [
                ("Edge1.example:9180", false),
                ("localhost", false),
                ("192.0.2.1:9180", false),
                ("site.example", true),
                ("edge1.example.site.example", true),
            ] {
                let refused = refused_beside(&[("host", host)], local, &["edge1.example"]);
                assert_eq!(refused, expected, "{host}");
            }
        }
        for local in [LOOPBACK, OTHER] {
            let mut old = Request::builder().version(Version::HTTP_10);
            assert_eq!(refusal(&old.body(()).unwrap(), local, &[], Purpose::Look), None);
            old = Request::builder().version(Version::HTTP_10).header("origin", "null");
            assert!(refusal(&old.body(()).unwrap(), local, &[], Purpose::Look).is_some());
            assert!(refused(&[], local));
            assert!(refused(&[("host", "")], local));
            assert!(refused(&[("host", "a"), ("host", "a")], local));
        }
    }
}
