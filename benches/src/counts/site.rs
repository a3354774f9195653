//! Routes, and requests for them.

use anyhow::Context as _;
use sluicegate_cc::Registry;
use sluicegate_config::Config;
use sluicegate_http::exchange::{Fields, RequestHead};
use sluicegate_http::path::CanonicalPath;
use sluicegate_http::route::Site;

/// Listener without which there is no configuration.
const LISTENER: &str =
    "[[listener]]\nname = \"main\"\naddress = \"[::1]:443\"\ntls = \"self-signed\"\n";

/// Returns the site of routes in TOML.
pub(super) fn site(routes: &str) -> anyhow::Result<Site> {
    let text = format!("{LISTENER}{routes}");
    let config = Config::from_toml("counts.toml", &text, &Registry::builtin());
    let config = config.context("the routes")?;
    Ok(Site::compile(&config.routes, &config.limits)?)
}

/// Returns the head of a GET with the fields of a common client.
pub(super) fn get(host: &str, path: &str) -> anyhow::Result<RequestHead> {
    let mut headers = Fields::new();
    for (name, value) in [
        ("user-agent", "curl/8.20.0"),
        ("accept", "*/*"),
        ("accept-encoding", "gzip, br"),
        ("cookie", "session=0123456789abcdef0123456789abcdef"),
    ] {
        headers.push((name.parse()?, value.parse()?));
    }
    Ok(RequestHead {
        method: "GET".to_owned(),
        protocol: None,
        scheme: Some("https".to_owned()),
        authority: host.to_owned(),
        path: CanonicalPath::parse(path).context("the path")?,
        query: None,
        headers,
    })
}
