//! The reverse proxy.

use super::words::{host, host_port, list, words};
use crate::error::Error;
use crate::model::{Handler, HostHeader, Proxy};
use crate::source::{Section, shown};
use crate::value::Item;

const MAX_UPSTREAMS: usize = 64;

pub(super) fn proxy(table: Section<'_>) -> Result<Handler, Error> {
    let proxy = Proxy {
        upstreams: upstreams(&table.given("upstreams")?)?,
        host: host_header(&table.given("host")?)?,
        strip_prefix: table.given("strip_prefix")?.switch()?,
        connect_timeout: table.given("connect_timeout")?.duration()?,
        head_timeout: table.given("head_timeout")?.duration()?,
        idle_timeout: table.given("idle_timeout")?.duration()?,
        keepalive: table.given("keepalive")?.count()?,
        keepalive_timeout: table.given("keepalive_timeout")?.duration()?,
        retries: table.given("retries")?.count()?,
        max_fails: table.given("max_fails")?.count()?,
        fail_timeout: table.given("fail_timeout")?.duration()?,
        forwarded: table.given("forwarded")?.switch()?,
        header_bytes: table.given("header_bytes")?.size()?,
    };
    table.finish();
    Ok(Handler::Proxy(proxy))
}

fn upstreams(item: &Item<'_>) -> Result<Vec<String>, Error> {
    for (at, word) in words(&item.value, item.at, 1..=MAX_UPSTREAMS) {
        if let Some(word) = word.as_str()
            && scheme(word).is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https"))
        {
            let found = format!("upstream \"{}\"", shown(word));
            let expected =
                "a server that is spoken to without TLS, as \"host:port\" or \"http://host\"";
            return Err(item.source.error(at, found, expected));
        }
    }
    list(item, 1..=MAX_UPSTREAMS, upstream)
}

fn scheme(word: &str) -> Option<(&str, &str)> {
    word.split_once("://")
}

/// `host:port`; with `http://` before it, port 80 goes without saying.
fn upstream(word: &str) -> Option<String> {
    match scheme(word) {
        None => host_port(word),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            host_port(rest).or_else(|| Some(format!("{}:80", host(rest)?)))
        }
        Some(_) => None,
    }
}

fn host_header(item: &Item<'_>) -> Result<HostHeader, Error> {
    match item.value.as_str() {
        Some("client") => Ok(HostHeader::Client),
        Some("upstream") => Ok(HostHeader::Upstream),
        Some(word) => host_port(word)
            .or_else(|| host(word))
            .map(HostHeader::Name)
            .ok_or_else(|| item.refused()),
        None => Err(item.refused()),
    }
}
