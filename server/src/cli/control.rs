//! Commands that ask the running server at its control socket.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use sluicegate_cc::Registry;
use sluicegate_config::Config;

use super::exit::{EXIT_CONFIG, printed, shown, wrong};
use crate::boot::{ControlRequest, ControlVerdict, ask_server, control_socket};

/// The server that is asked, at its control socket.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ControlArgs {
    /// Configuration file of the server, whose state_dir has the socket.
    #[arg(required_unless_present_any = ["config", "socket"])]
    file: Option<PathBuf>,
    /// Configuration file, as `run` takes it.
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// The server's control socket, instead of that in state_dir.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["file", "config"])]
    socket: Option<PathBuf>,
    /// Fail after this many seconds; the server may still do it later.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = clap::value_parser!(u16).range(1..=3600))]
    timeout: u16,
}

impl ControlArgs {
    /// Asks the server at its control socket, within a time, prints the verdict and returns the exit code.
    ///
    /// # Errors
    /// No server can be asked, or it does not reply.
    pub(super) fn ask(
        &self,
        runtime_dir: Option<&Path>,
        registry: &Registry,
        request: &ControlRequest,
    ) -> anyhow::Result<u8> {
        self.ask_and_show(runtime_dir, registry, request, shown)
    }

    /// Does the same, and prints what `show` makes of the verdict.
    ///
    /// # Errors
    /// As with [`ControlArgs::ask`].
    pub(super) fn ask_and_show(
        &self,
        runtime_dir: Option<&Path>,
        registry: &Registry,
        request: &ControlRequest,
        show: impl FnOnce(&str) -> String,
    ) -> anyhow::Result<u8> {
        let socket = match (&self.socket, self.file.as_ref().or(self.config.as_ref())) {
            (Some(socket), _) => socket.clone(),
            (None, Some(file)) => match Config::load(file, registry) {
                Ok(config) => socket_of(&config, file, runtime_dir, request)?,
                Err(error) => {
                    let code = wrong(&error);
                    eprintln!("the server was not asked, and goes on as before");
                    return Ok(code);
                }
            },
            (None, None) => bail!("a configuration file or --socket is needed"),
        };
        let limit = Duration::from_secs(self.timeout.into());
        match ask_server(&socket, request, limit) {
            Ok(ControlVerdict::Taken(text)) => {
                printed(writeln!(std::io::stdout(), "{}", show(&text)))
            }
            Ok(ControlVerdict::Refused(reason)) => {
                eprintln!("{}", shown(&reason));
                eprintln!("refused; {}", unchanged(request));
                Ok(EXIT_CONFIG)
            }
            Err(error) => Err(explained(error, &socket, limit)),
        }
    }
}

/// Returns what holds after a refusal.
fn unchanged(request: &ControlRequest) -> &'static str {
    match request {
        ControlRequest::Reload => "the previous configuration stays in effect",
        ControlRequest::Upgrade(_) | ControlRequest::Back => "the server goes on as before",
        ControlRequest::Status => "nothing has changed",
    }
}

fn socket_of(
    config: &Config,
    file: &Path,
    runtime_dir: Option<&Path>,
    request: &ControlRequest,
) -> anyhow::Result<PathBuf> {
    control_socket(config, runtime_dir).with_context(|| {
        let remedies = match request {
            ControlRequest::Reload => {
                "set it and restart the server, name the socket by --socket, or send SIGHUP and read the log"
            }
            _ => "set it and restart the server, or name the socket by --socket",
        };
        let file = file.display();
        format!("{file} sets no `state_dir` in [server], so its server has no control socket: {remedies}")
    })
}

/// Adds to an error what can be done about it.
fn explained(error: std::io::Error, socket: &Path, limit: Duration) -> anyhow::Error {
    let at = socket.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
            "no server listens at {at}: it does not run, was started with another `state_dir` (which only a restart changes), or \
             has no control socket, which its log says"
        ),
        ErrorKind::PermissionDenied => {
            anyhow!(
                "this user may not ask the server at {at}; run the command as root or as the server's user"
            )
        }
        ErrorKind::TimedOut => {
            anyhow!("no verdict from the server at {at} within {limit:?}; see its log")
        }
        ErrorKind::InvalidData => {
            anyhow!("the server at {at} ended without a verdict; see its log")
        }
        _ => anyhow::Error::from(error).context(format!("cannot ask the server at {at}")),
    }
}
