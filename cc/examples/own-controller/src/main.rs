//! Sluicegate with one more algorithm: the same commands, and `constant` among the names.

mod constant;

use std::process::ExitCode;

use sluicegate_cc::Registry;

fn main() -> ExitCode {
    let mut registry = Registry::builtin();
    if let Err(error) = registry.register(constant::ALGORITHM) {
        eprintln!("own-controller: {error}");
        return ExitCode::FAILURE;
    }
    sluicegate::cli::main(&registry)
}
