//! The scheme of connection IDs, with what the environment and files say about it.

use sluicegate_config::Config;
use sluicegate_quic::cid::{CidError, CidSchemes, CidSurroundings};

/// Returns the scheme of a configuration.
///
/// # Errors
/// A variable or file is missing or holds something else, or an ID would be too long.
pub(super) fn schemes(config: &Config) -> Result<CidSchemes, CidError> {
    let surroundings = CidSurroundings {
        variable: &|name| variable(name),
        accept_open: config.server.open_secrets,
        has_state_dir: config.server.state_dir.is_some(),
    };
    CidSchemes::read(&config.quic.connection_ids, surroundings)
}

#[expect(clippy::disallowed_methods, reason = "the configuration names the variable")]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}
