//! `sluicegate balance`, which a build has by the cargo feature `balance`.

#[cfg(feature = "balance")]
use std::path::{Path, PathBuf};

#[cfg(not(feature = "balance"))]
use anyhow::bail;
#[cfg(feature = "balance")]
use sluicegate_balance::{BalancerSettings, SettingsError, Signals};
#[cfg(feature = "balance")]
use sluicegate_config::{BalancerConfig, Step};

/// A file with every table.
#[cfg(feature = "balance")]
const EXAMPLE: &str = r#"listen = ["0.0.0.0:443", "[::]:443"]

[[connection_ids]]             # as quic.connection_ids of the servers; up to seven of them
config = 0
server_id_length = 8
nonce = 8
key_file = "quic-lb.key"       # without it, IDs are in plain text

[[server]]
name = "a"
address = "192.0.2.1:443"
server_id = "0x0102030405060708"
health = "192.0.2.1:443"       # over TCP; without it, the server always counts as up
drain = false

[[server]]
name = "b"
address = "192.0.2.2:443"
server_id = "0x0102030405060709"
health = "192.0.2.2:443"

[flows]                        # all keys from here on are at their defaults
idle_timeout = "2m"
max = 10000
new_per_second = 1000

[health_check]
interval = "2s"
timeout = "2s"
rises = 2
falls = 3

[log]
level = "info"
format = "text"
"#;

/// Balance QUIC over several servers, by connection ID (QUIC-LB).
///
/// Passes on UDP alone. A datagram goes to the server that its connection ID names, else to the server of its client's address and port,
/// else to one that is chosen by a hash of them. SIGHUP reads the file again without losing a flow: servers, `drain`, keys. SIGTERM ends
/// the balancer and with it all flows. For tests and bare metal: one thread, and no policy beyond that. See docs/balance.md.
#[cfg(feature = "balance")]
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = format!("Configuration:\n\n{}", EXAMPLE.trim_end()))]
pub(super) struct BalanceArgs {
    /// Configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Check the file and the keys that it names, print "ok" or the mistakes with their lines, and end.
    #[arg(long)]
    check: bool,
}

/// Stands for the options in a build without the balancer.
#[cfg(not(feature = "balance"))]
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct BalanceArgs {
    #[arg(value_name = "ARGUMENT", allow_hyphen_values = true)]
    _arguments: Vec<String>,
}

/// Balances until a signal to end.
///
/// # Errors
/// An address cannot be listened at.
#[cfg(feature = "balance")]
pub(super) fn run(args: &BalanceArgs) -> anyhow::Result<u8> {
    use std::io::Write as _;

    use sluicegate_base::clock;
    use sluicegate_base::observe::process_log;

    use super::exit::{EXIT_CONFIG, printed, wrong};

    let file = args.config.as_path();
    let config = match BalancerConfig::load(file) {
        Ok(config) => config,
        Err(error) => return Ok(wrong(&error)),
    };
    process_log::start(&config.log);
    let settings = match BalancerSettings::read(&config) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("{}", with_place(file, &error));
            return Ok(EXIT_CONFIG);
        }
    };
    if args.check {
        return printed(writeln!(std::io::stdout(), "ok"));
    }
    let signals = signals()?;
    process_log::start_thread()?;
    let mut current = config;
    let listen = current.listen.clone();
    let balanced = sluicegate_balance::run(&listen, settings, &signals, clock::now, || {
        reload(file, &mut current)
    });
    process_log::finish(super::LOG_LIMIT);
    balanced.map(|()| 0).map_err(Into::into)
}

/// Fails, and says how to get a balancer.
#[cfg(not(feature = "balance"))]
pub(super) fn run(_: &BalanceArgs) -> anyhow::Result<u8> {
    bail!("this build has no balancer: build with the cargo feature `balance`")
}

/// Returns streams that signals write to.
#[cfg(feature = "balance")]
fn signals() -> std::io::Result<Signals> {
    use std::os::unix::net::UnixStream;

    use signal_hook::low_level::pipe;

    let (stop, stopping) = UnixStream::pair()?;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT] {
        pipe::register(signal, stopping.try_clone()?)?;
    }
    let (reload, reloading) = UnixStream::pair()?;
    pipe::register(libc::SIGHUP, reloading)?;
    Ok(Signals { stop, reload })
}

/// Reads the file again. Logs the verdict.
#[cfg(feature = "balance")]
fn reload(file: &Path, current: &mut BalancerConfig) -> Option<BalancerSettings> {
    use sluicegate_base::observe::process_log;

    match read_again(file, current) {
        Ok((config, settings)) => {
            process_log::set(&config.log);
            *current = config;
            Some(settings)
        }
        Err(error) => {
            tracing::error!(error, "configuration refused; the previous one stays in effect");
            None
        }
    }
}

#[cfg(feature = "balance")]
fn read_again(
    file: &Path,
    current: &BalancerConfig,
) -> Result<(BalancerConfig, BalancerSettings), String> {
    let config = BalancerConfig::load_again(file).map_err(|error| error.to_string())?;
    let fixed = current.needs_restart(&config);
    if !fixed.is_empty() {
        return Err(format!("a change of {} needs a restart", fixed.join(", ")));
    }
    let settings = BalancerSettings::read(&config).map_err(|error| with_place(file, &error))?;
    Ok((config, settings))
}

/// Returns the error with its place in the file.
#[cfg(feature = "balance")]
fn with_place(file: &Path, error: &SettingsError) -> String {
    let steps = [Step::Key("connection_ids"), Step::Index(error.table), Step::Key(error.key)];
    let at = sluicegate_config::locate(file, &steps);
    let at = at.map_or_else(|| file.display().to_string(), |at| at.to_string());
    format!("{at}: {error}")
}

#[cfg(all(test, feature = "balance"))]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_configuration_with_the_defaults() {
        let config = BalancerConfig::from_toml("example.toml", EXAMPLE).unwrap();
        assert_eq!((config.servers.len(), config.connection_ids.len()), (2, 1));
        let (servers, _) = EXAMPLE.split_once("[flows]").unwrap();
        assert_eq!(BalancerConfig::from_toml("example.toml", servers).unwrap(), config);
        let page = include_str!("../../../docs/balance.md");
        assert!(page.contains(EXAMPLE), "docs/balance.md shows the same example");
    }
}
