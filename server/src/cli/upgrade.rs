//! `sluicegate upgrade` has the running server replaced by a new process, and prints the verdict.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sluicegate_cc::Registry;

use super::control::ControlArgs;
use crate::boot::ControlRequest;

/// Replace the running server by a new process, without losing a connection.
///
/// The server starts its program again, which may be a newer or an older version, with the same arguments. Once it serves, it takes new
/// connections; those that are open end with the former process, which drains for up to `drain_timeout`. If the new process cannot
/// start, nothing changes. With --back, the former process serves again, as long as it drains. Run it as root or as the server's user;
/// SIGUSR2 asks for the same. The exit code is 0 once the other process serves, and 2 if the server goes on as before.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct UpgradeArgs {
    #[command(flatten)]
    control: ControlArgs,
    /// Program to start [default: the file of the running one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Return to the former process, which must still drain, instead of starting one
    #[arg(long, conflicts_with = "program")]
    back: bool,
}

/// Asks the server, prints its verdict, and returns the exit code.
///
/// # Errors
/// No server can be asked, or it does not reply.
pub(super) fn run(
    args: &UpgradeArgs,
    runtime_dir: Option<&Path>,
    registry: &Registry,
) -> anyhow::Result<u8> {
    let program = args.program.as_ref().map(|program| {
        std::fs::canonicalize(program)
            .with_context(|| format!("cannot start {}", program.display()))
    });
    let program = program.transpose()?;
    let request = if args.back { ControlRequest::Back } else { ControlRequest::Upgrade(program) };
    args.control.ask(runtime_dir, registry, &request)
}
