//! `sluicegate doctor` says what the host and the container lack for a configuration.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Method;
use serde_json::Value;
use sluicegate_base::clock;
use sluicegate_cc::Registry;
use sluicegate_config::Config;

use super::admin_client::ask;
use super::exit::{EXIT_CONFIG, EXIT_FAILED, failed, wrong};
use crate::boot::{self, BootError};
use crate::doctor::{self, HostFacts, HostFiles, HostSample, MeasuredPath, SystemProbe};

/// Time in which counters of the kernel are watched.
const WATCH: Duration = Duration::from_secs(1);
/// Connections of the running server that are looked at.
const PATHS: usize = 1000;

/// Check the host, and the container, against what a configuration needs: limits, kernel, network cards, cores.
///
/// Each finding says what was found, what is wanted, the command that mends it, and where to read more. Nothing is changed. Run it as
/// the server's user, or as root to see everything. The exit code is 0 if no check found anything to mend, 1 if there are warnings,
/// 2 if the server cannot start with this configuration, and 70 if doctor itself failed. Checks that could not be looked at count as
/// nothing to mend; the last line says how many there are.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// Configuration file. Without one it is the configuration of `run` without a file.
    file: Option<PathBuf>,
    /// Configuration file, as `run` takes it.
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Also list what is fine, and what does not apply.
    #[arg(short, long)]
    verbose: bool,
    /// Print every check as JSON.
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
    /// Print a shell script with the commands of all findings, to be read and then run by hand.
    #[arg(long, conflicts_with_all = ["verbose", "json"])]
    fix_script: bool,
}

/// Examines the host, prints, and returns the exit code.
///
/// # Errors
/// If the reader of the output has closed the pipe.
pub(super) fn run(
    args: &DoctorArgs,
    registry: &Registry,
    out: &mut impl std::io::Write,
) -> anyhow::Result<u8> {
    examine(args, registry, out).or_else(|error| {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) {
            return Err(error);
        }
        eprintln!("sluicegate: {}", boot::one_line(&*error));
        // The code of warnings would say that the server runs.
        Ok(if error.is::<BootError>() { EXIT_CONFIG } else { EXIT_FAILED })
    })
}

fn examine(
    args: &DoctorArgs,
    registry: &Registry,
    out: &mut impl std::io::Write,
) -> anyhow::Result<u8> {
    let file = args.file.as_deref().or(args.config.as_deref());
    let config = match file.map(|file| Config::load(file, registry)) {
        None => Config::embedded(),
        Some(Ok(config)) => config,
        Some(Err(error)) => return Ok(wrong(&error)),
    };
    match boot::examine(&config, registry) {
        // A check of its own tells it, with the command.
        Ok(_) | Err(BootError::Port { .. }) => {}
        Err(error) => return failed(error, file, &config),
    }
    let needs = match boot::host_needs(&config, registry) {
        Ok(needs) => needs,
        Err(error) => return failed(error, file, &config),
    };
    let files = HostFiles::below(Path::new("/"));
    let (before, since) = (HostSample::read(&files), clock::now());
    let paths = if needs.model_based.is_empty() { Ok(Vec::new()) } else { measured(&config) };
    std::thread::park_timeout(WATCH);
    let elapsed = clock::now().saturating_duration_since(since);
    let facts = HostFacts { files, probe: &SystemProbe, needs, before, elapsed, paths };
    let findings = doctor::examine(&facts);
    if args.json {
        writeln!(out, "{:#}", doctor::json(&findings))?;
    } else if args.fix_script {
        out.write_all(doctor::script(&findings).as_bytes())?;
    } else {
        if file.is_none() {
            writeln!(
                out,
                "No file was named: this is for the configuration of `sluicegate run` without one.\n"
            )?;
        }
        out.write_all(doctor::text(&findings, args.verbose).as_bytes())?;
    }
    Ok(doctor::exit_code(&findings))
}

/// Asks the running server for the round-trip times of its connections of QUIC.
fn measured(config: &Config) -> Result<Vec<MeasuredPath>, String> {
    let Some(admin) = config.admin.address else {
        return Err(
            "the configuration sets no `address` in [admin], so its server cannot be asked"
                .to_owned(),
        );
    };
    let path = format!("/debug/connections?limit={PATHS}&protocol=h3");
    let (status, body) = ask(admin, &Method::GET, &path)
        .map_err(|_| format!("no running server replies at {admin}"))?;
    if !status.is_success() {
        return Err(format!(
            "the server at {admin} does not show its connections ({status}): set `connections = true` in [admin]"
        ));
    }
    let reply: Value = serde_json::from_str(&body).map_err(|_| format!("{admin} sent no JSON"))?;
    let connections = reply["connections"].as_array().ok_or(format!("{admin} is no Sluicegate"))?;
    let word = |connection: &Value, key: &str| connection[key].as_str().unwrap_or("").to_owned();
    let measured = connections.iter().filter_map(|connection| {
        Some(MeasuredPath {
            listener: word(connection, "listener"),
            algorithm: word(connection, "algorithm"),
            min_rtt_ms: connection["min_rtt_ms"].as_f64()?,
        })
    });
    Ok(measured.collect())
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind, Write};

    use super::*;

    /// An output that takes nothing.
    struct Refuses(ErrorKind);

    impl Write for Refuses {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(Error::from(self.0))
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failure_is_not_taken_for_a_warning() {
        let args =
            DoctorArgs { file: None, config: None, verbose: false, json: false, fix_script: false };
        let code = |kind| run(&args, &Registry::builtin(), &mut Refuses(kind)).ok();
        assert_eq!(code(ErrorKind::StorageFull), Some(70));
        assert_eq!(code(ErrorKind::BrokenPipe), None);
    }
}
