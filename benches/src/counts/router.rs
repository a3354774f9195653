//! The lookup of routes.

use std::fmt::Write as _;
use std::hint::black_box;

use super::site::{get, site};
use crate::counted::counted;

/// Hosts that are named, each with four routes.
const HOSTS: u32 = 20;

/// Requests: host and path. One of each kind of route, one that none matches, and more of the usual kind.
const REQUESTS: [(&str, &str); 8] = [
    ("app3.example.com", "/"),
    ("app7.example.com", "/api/v1/users/42/orders"),
    ("app12.example.com", "/static/css/site.css"),
    ("app19.example.com", "/favicon.ico"),
    ("some.tenant.example.org", "/dashboard/reports/2026"),
    ("www.example.net", "/user/1234"),
    ("www.example.net", "/archive/2026/11/index.html"),
    ("www.example.net", "/nothing/here"),
];

/// Has the instructions of lookups counted, so many of each request. Returns their number.
pub(super) fn count(times: u64) -> anyhow::Result<u64> {
    let site = site(&routes())?;
    let heads = REQUESTS.map(|(host, path)| get(host, path));
    let heads = heads.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let mut found = 0;
    counted(|| {
        for _ in 0..times {
            for head in &heads {
                found += u64::from(site.find(black_box(head)).is_ok());
            }
        }
    });
    let lookups = times * REQUESTS.len() as u64;
    anyhow::ensure!(found == lookups - times, "one request has no route");
    Ok(lookups)
}

/// Returns 86 routes: four for each of the hosts, one for the names below another, and five for the rest.
fn routes() -> String {
    let mut text = String::new();
    let mut route = |host: &str, path: &str| {
        let host = match host {
            "" => String::new(),
            host => format!("host = \"{host}\"\n"),
        };
        let _ = write!(text, "[[route]]\n{host}path = '{path}'\nfixed = {{}}\n");
    };
    for number in 0..HOSTS {
        let host = format!("app{number}.example.com");
        for path in ["/", "/api/", "/static/", "= /favicon.ico"] {
            route(&host, path);
        }
    }
    route("*.example.org", "/");
    for path in ["= /robots.txt", "~ ^/user/[0-9]+$", "~ [.]php$", "/archive/", "/archive/2026/"] {
        route("", path);
    }
    text
}
