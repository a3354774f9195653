//! Refusal of requests that a browser makes for another site.
//!
//! A page of any site can have an operator's browser ask a loopback address, although it cannot read the response: an image
//! whose address is that of a profile suffices to record one.

use std::net::IpAddr;

use hyper::Request;
use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::Authority;

/// Returns why a request is refused that reached the local address `local`; `None` if it may record a profile.
///
/// Browsers say in Sec-Fetch-Site where a request comes from (W3C Fetch Metadata §2.3), but not to each address; in Origin, for
/// some requests (RFC 6454 §7). They say neither if a site points its own name at this host (DNS rebinding). So a loopback
/// address, which needs no other name, takes only addresses and `localhost` for one.
pub(super) fn refusal<B>(request: &Request<B>, local: IpAddr) -> Option<&'static str> {
    let headers = request.headers();
    let mut sites = headers.get_all("sec-fetch-site").iter();
    if sites.any(|site| site != "same-origin" && site != "none") {
        return Some("a page of another site asks for this; open the address itself\n");
    }
    let mut hosts = headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
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
    if local.to_canonical().is_loopback() && !is_loopback_name(host.host()) {
        return Some(
            "a loopback address is asked by this name: use localhost or the IP address as the host\n",
        );
    }
    None
}

/// Returns whether no site can choose the address that a browser finds for this name.
fn is_loopback_name(name: &str) -> bool {
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost") || address.unwrap_or(name).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn refused(headers: &[(&str, &str)], local: IpAddr) -> bool {
        let mut request = Request::builder().uri("/debug/flamegraph");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        refusal(&request.body(()).unwrap(), local).is_some()
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
        for local in [LOOPBACK, OTHER] {
            assert!(refused(&[], local));
            assert!(refused(&[("host", "")], local));
            assert!(refused(&[("host", "a"), ("host", "a")], local));
        }
    }
}
