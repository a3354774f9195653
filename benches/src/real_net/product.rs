//! The product itself as a server, and its own client.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::error::RealNetError;
use crate::linkem::{Group, Namespace, Network, Priority, SERVER, prioritize};

/// Port of the server.
pub const PORT: u16 = 443;

/// Time that the server has to bind its port.
const START: Duration = Duration::from_secs(10);

/// Returns the program to run as the product: that file, or the one beside the program that runs now.
///
/// # Errors
///
/// There is no such file.
pub fn product_program(program: Option<&Path>) -> Result<PathBuf, RealNetError> {
    let program = match program {
        Some(program) => program.to_owned(),
        None => std::env::current_exe()?.with_file_name("sluicegate"),
    };
    if program.is_file() {
        return Ok(program);
    }
    let name = program.display().to_string();
    Err(RealNetError::Program(name, "no such file".to_owned()))
}

/// A running server. It generates bodies of any length below /bytes/.
#[derive(Debug)]
pub struct ProductServer {
    _group: Group,
    _folder: TempDir,
}

impl ProductServer {
    /// Starts a program in the server's namespace, with one worker, and waits until it has its port.
    ///
    /// # Errors
    ///
    /// The program does not start.
    pub fn start(
        network: &Network,
        program: &Path,
        algorithm: &str,
        core: usize,
    ) -> Result<Self, RealNetError> {
        Self::start_with(network, program, algorithm, core, "")
    }

    /// Starts it with these tables of the configuration, too.
    ///
    /// # Errors
    ///
    /// As [`ProductServer::start`].
    pub(super) fn start_with(
        network: &Network,
        program: &Path,
        algorithm: &str,
        core: usize,
        tables: &str,
    ) -> Result<Self, RealNetError> {
        let name = program.display().to_string();
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("sluicegate.toml");
        fs::write(&file, configuration(algorithm, core, tables))?;
        let log = folder.path().join("log");
        let mut command = Command::new(program);
        command.args(["run", "-c"]).arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log)?).env("NO_COLOR", "1");
        let group = start_first(&network.server, &mut command);
        let group =
            group.map_err(|error| RealNetError::Program(name.clone(), error.to_string()))?;
        if !network.await_server(PORT, START)? {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let last = log.lines().last().unwrap_or("it says nothing");
            return Err(RealNetError::Program(name, last.to_owned()));
        }
        Ok(Self { _group: group, _folder: folder })
    }
}

/// Starts a program in a namespace, in real time if the process may do so, since other work on the machine would decide about its
/// times.
pub(super) fn start_first(namespace: &Namespace, command: &mut Command) -> io::Result<Group> {
    namespace.within(|| {
        prioritize(Priority::Program);
        Group::start(command)
    })?
}

/// Returns the table `[quic]` for datagrams of this size from the first on.
pub(super) fn datagrams_of(bytes: u64) -> String {
    format!("[quic]\nmax_udp_payload = {bytes}\npath_mtu_discovery = false\n")
}

/// Returns the URL of a body of that many bytes.
fn url(bytes: u64) -> String {
    format!("https://{SERVER}/bytes/{bytes}")
}

/// Returns the command of the product's own client, for a body of that many bytes.
pub fn own_client(program: &Path, bytes: u64) -> Command {
    let mut command = Command::new(program);
    command.args(["get", "--insecure", "--output", "/dev/null", "--max-time"]);
    command.args(["86400", &url(bytes)]).stdin(Stdio::null());
    command
}

fn configuration(algorithm: &str, core: usize, tables: &str) -> String {
    format!(
        "{tables}[[group]]\nname = \"default\"\ncores = [{core}]\n\
         [[listener]]\nname = \"public\"\naddress = \"{SERVER}:{PORT}\"\ntls = \"self-signed\"\n\
         congestion_control = \"{algorithm}\"\n\
         [[route]]\npath = \"/bytes/\"\n[route.generate]\nmax_size = \"1TiB\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_valid_for_every_algorithm() {
        let registry = sluicegate_cc::Registry::builtin();
        for algorithm in registry.names() {
            let text = configuration(algorithm, 0, &datagrams_of(1_200));
            let parsed = sluicegate_config::Config::from_toml("test", &text, &registry);
            assert!(parsed.is_ok(), "{parsed:?}");
        }
    }
}
