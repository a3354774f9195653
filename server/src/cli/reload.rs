//! `sluicegate reload` asks the running server to reload, and prints the verdict.

use std::path::Path;

use sluicegate_cc::Registry;

use super::control::ControlArgs;
use crate::boot::ControlRequest;

/// Have the running server reload its configuration, and say whether it took it.
///
/// Run it as root or as the server's user. The exit code is 0 once every worker has applied the configuration, and 2 if the server
/// refused it; the previous one then stays in effect. The server listens at control.sock in its state_dir.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ReloadArgs {
    #[command(flatten)]
    control: ControlArgs,
}

/// Asks the server, prints its verdict, and returns the exit code.
///
/// # Errors
/// No server can be asked, or it does not reply.
pub(super) fn run(
    args: &ReloadArgs,
    runtime_dir: Option<&Path>,
    registry: &Registry,
) -> anyhow::Result<u8> {
    args.control.ask(runtime_dir, registry, &ControlRequest::Reload)
}
