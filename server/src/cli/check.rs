//! `sluicegate check` says whether a configuration can be served.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use sluicegate_base::observe::process_log;
use sluicegate_cc::Registry;
use sluicegate_config::{Config, LogFormat, LogLevel};

use super::exit::{EXIT_CONFIG, failed, printed, wrong};
use crate::boot;

/// Check a configuration and the files that it names, and print "ok" or the mistakes with their lines. Connection IDs with a format of
/// their own are shown by the bytes of each part.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// Configuration file.
    #[arg(required_unless_present_any = ["schema", "config"])]
    file: Option<PathBuf>,
    /// Configuration file, as `run` takes it.
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Configuration that the server runs with: name the changes that need a restart, because a reload would refuse them.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Print the whole configuration, with the defaults filled in and `<redacted>` in place of passwords and tokens, instead of "ok".
    #[arg(long)]
    print: bool,
    /// Look up the names of upstreams, too; one without an address is a mistake. Without it no network is needed.
    #[arg(long)]
    resolve: bool,
    /// Print a JSON Schema of the configuration instead.
    #[arg(long, conflicts_with_all = ["file", "config", "against", "print", "resolve"])]
    schema: bool,
}

/// Checks, prints, and returns the exit code.
///
/// # Errors
/// A cause that no change of the file can remedy.
pub(super) fn run(args: &CheckArgs, registry: &Registry) -> anyhow::Result<u8> {
    let Some(file) = args.file.as_deref().or(args.config.as_deref()) else {
        let schema = sluicegate_config::json_schema(registry);
        return printed(std::io::stdout().write_all(schema.as_bytes()));
    };
    let config = match Config::load(file, registry) {
        Ok(config) => config,
        Err(error) => return Ok(wrong(&error)),
    };
    // The caller gets the warnings, whatever level the server logs at.
    let mut log = config.log;
    (log.level, log.format) = (LogLevel::Warn, LogFormat::Text);
    process_log::start(&log);
    let examined = match boot::examine(&config, registry) {
        Ok(examined) => examined,
        Err(error) => return failed(error, Some(file), &config),
    };
    if let Some(code) = against(args.against.as_deref(), file, &config, registry) {
        return Ok(code);
    }
    if args.resolve {
        let missing = boot::unresolved(&config);
        for name in &missing {
            let (file, pool, host) = (file.display(), &name.pool, &name.host);
            eprintln!(
                "{file}: pool `{pool}`: the name {host} has no address; correct it, or see that DNS knows it"
            );
        }
        if !missing.is_empty() {
            return Ok(EXIT_CONFIG);
        }
    }
    let text = match examined.cid_layout {
        _ if args.print => config.without_secrets().to_toml(),
        Some(layout) => format!("connection IDs: {layout}\nok\n"),
        None => "ok\n".to_owned(),
    };
    printed(std::io::stdout().write_all(text.as_bytes()))
}

/// Prints the changes that a server which runs with the configuration in `running` could not take, and returns the exit code for
/// them; `None` if there are none.
fn against(
    running: Option<&Path>,
    file: &Path,
    config: &Config,
    registry: &Registry,
) -> Option<u8> {
    let running = match Config::load(running?, registry) {
        Ok(running) => running,
        Err(error) => return Some(wrong(&error)),
    };
    let error = boot::examine_reload(&running, config).err()?;
    eprintln!("{}: {error}", file.display());
    Some(EXIT_CONFIG)
}
