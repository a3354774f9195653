//! Sessions behind an endpoint: what only both together do. Time is the test's own; nothing is lost.

mod addresses;
mod floods;
mod greedy;
mod idle;
mod lifetimes;
mod service;
mod waits;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use sluicegate_config::Config;
use sluicegate_http::route::Site;
use sluicegate_quic::settings::Settings;
use sluicegate_quic::testing::{Attack, Bench, Client};

use crate::h3::Http3Session;
use crate::snapshot::plain_settings;

/// Address of the client that keeps the rules, and of those that do not.
const HONEST: &str = "192.0.2.77:4000";
const PEER: &str = "192.0.2.1:5000";
/// A route to handlers.
const PROXY: &str = "[[route]]\npath = \"/app/\"\nproxy = { upstreams = \"127.0.0.1:1\" }\n";
/// A route to responses of any size.
const BYTES: &str = "[[route]]\npath = \"/bytes/\"\ngenerate = {}\n";

fn with_routes(text: &str) -> Settings<Http3Session> {
    let mut settings = plain_settings(0, 1);
    settings.shared.site = Site::of_routes(text, &settings.limits);
    settings
}

/// Returns an endpoint with a route for `/bytes/`.
fn attack(change: impl FnOnce(&mut Settings<Http3Session>)) -> Attack<Http3Session> {
    static SITE: LazyLock<Arc<Site>> =
        LazyLock::new(|| Site::of_routes(BYTES, &Config::embedded().limits));
    let mut settings = plain_settings(0, 1);
    settings.shared.site = Arc::clone(&SITE);
    change(&mut settings);
    Attack::of(settings)
}
