//! `sluicegate load`, which a build has by the cargo feature `load`.

#[cfg(not(feature = "load"))]
use anyhow::bail;
use sluicegate_cc::Registry;
#[cfg(feature = "load")]
pub(super) use sluicegate_load::LoadArgs;

/// Stands for the options in a build without the load generator.
#[cfg(not(feature = "load"))]
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct LoadArgs {
    #[arg(value_name = "ARGUMENT", allow_hyphen_values = true)]
    _arguments: Vec<String>,
}

/// Loads a server. The first signal to end asks for the report, the second ends the process.
#[cfg(feature = "load")]
pub(super) fn run(args: &LoadArgs, registry: &Registry) -> anyhow::Result<u8> {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use sluicegate_base::clock;

    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let clock = sluicegate_load::Clock { now: clock::now, unix: clock::unix };
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
    sluicegate_load::run(args, registry, clock, &stop, &mut out, &mut err)
}

/// Fails, and says how to get a load generator.
#[cfg(not(feature = "load"))]
pub(super) fn run(_: &LoadArgs, _: &Registry) -> anyhow::Result<u8> {
    bail!("this build has no load generator: build with the cargo feature `load`")
}

#[cfg(all(test, not(feature = "load")))]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use crate::cli::Cli;

    #[test]
    fn help_leaves_out_what_the_build_does_not_have() {
        let help = Cli::command().render_help().to_string();
        let lists =
            |name: &str| help.lines().any(|line| line.split_whitespace().next() == Some(name));
        assert!(lists("get") && !lists("load"), "{help}");
        for words in [&["-c", "3", "https://a/"][..], &["--help"], &[]] {
            assert!(Cli::try_parse_from([&["sluicegate", "load"], words].concat()).is_ok());
        }
    }
}
