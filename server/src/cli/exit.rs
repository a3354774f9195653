//! Exit codes of the command line.

use std::path::Path;

use sluicegate_config::Config;

use crate::boot::{self, BootError};

/// Exit code of a wrong configuration.
pub(super) const EXIT_CONFIG: u8 = 2;

/// Exit code of a command whose own failure must not be taken for what it found: EX_SOFTWARE of sysexits.
pub(super) const EXIT_FAILED: u8 = 70;

/// Returns the exit code after printing. It is no error if the reader closes the pipe early, as `head` does.
pub(super) fn printed(result: std::io::Result<()>) -> anyhow::Result<u8> {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(0),
    }
}

/// Returns the server's text without control characters, which a terminal would obey.
pub(super) fn shown(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}

/// Prints each mistake of a configuration, and returns the exit code.
pub(super) fn wrong(error: &sluicegate_config::Error) -> u8 {
    for mistake in error.each() {
        eprintln!("{mistake}");
    }
    EXIT_CONFIG
}

/// Returns the exit code after an error of the start. A mistake in the file is shown with its place, as one that was found by
/// reading the file alone.
pub(super) fn failed(error: BootError, file: Option<&Path>, config: &Config) -> anyhow::Result<u8> {
    let at = file.zip(boot::place(&error, config));
    let Some((file, place)) = at else {
        return Err(error.into());
    };
    let at = sluicegate_config::locate(file, &place);
    let at = at.map_or_else(|| file.display().to_string(), |at| at.to_string());
    let error = boot::one_line(&error);
    eprintln!("{at}: {error}");
    Ok(EXIT_CONFIG)
}
