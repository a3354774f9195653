//! Sluicegate with the algorithm of the incident among the names: `incident` runs it.

use std::process::ExitCode;

use sluicegate_benches::unfixed_cubic::UNFIXED_CUBIC;
use sluicegate_cc::Registry;

fn main() -> ExitCode {
    let mut registry = Registry::builtin();
    if let Err(error) = registry.register(UNFIXED_CUBIC) {
        eprintln!("unfixed: {error}");
        return ExitCode::FAILURE;
    }
    sluicegate::cli::main(&registry)
}
