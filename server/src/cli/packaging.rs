//! Completions of shells and manual pages, generated from the declaration of the command line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap_complete::Shell;

/// Print a script that completes commands and options in a shell. In bash: `source <(sluicegate completion bash)`.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionArgs {
    /// Shell that the script is for.
    shell: Shell,
}

/// Write a manual page for each command.
#[derive(Debug, clap::Args)]
pub(super) struct ManpagesArgs {
    /// Folder to write the pages to; created if it is missing.
    folder: PathBuf,
}

/// Prints the script of a shell.
pub(super) fn completion(
    args: &CompletionArgs,
    mut command: clap::Command,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "sluicegate", &mut script);
    out.write_all(&script)?;
    out.flush()
}

/// Writes the pages.
pub(super) fn manpages(args: &ManpagesArgs, command: clap::Command) -> anyhow::Result<()> {
    let write = |folder: &Path| {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(command, folder)
    };
    write(&args.folder).with_context(|| format!("{}", args.folder.display()))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, ValueEnum as _};

    use super::*;
    use crate::cli::Cli;

    /// Names of all commands that help lists.
    fn commands() -> Vec<String> {
        let command = Cli::command();
        let listed = command.get_subcommands().filter(|command| !command.is_hide_set());
        listed.map(|command| command.get_name().to_owned()).collect()
    }

    #[test]
    fn every_shell_completes_every_command() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            let args = CompletionArgs { shell: *shell };
            completion(&args, Cli::command(), &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            for command in commands() {
                assert!(script.contains(&command), "{shell}: {command}");
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let args = ManpagesArgs { folder: folder.path().join("man/man1") };
        // A second time they are replaced.
        for _ in 0..2 {
            manpages(&args, Cli::command()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(args.folder.join(name)).unwrap();
        let main = read("sluicegate.1");
        for command in commands() {
            let name = format!("sluicegate-{command}");
            assert!(main.contains(&name.replace('-', "\\-")), "{command}");
            assert!(read(&format!("{name}.1")).contains(".SH SYNOPSIS"), "{command}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let args = ManpagesArgs { folder: file.path().join("man") };
        let error = manpages(&args, Cli::command()).unwrap_err();
        assert!(error.to_string().contains("/man"), "{error:#}");
    }
}
