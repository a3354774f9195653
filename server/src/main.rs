//! The `sluicegate` binary.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    sluicegate::cli::main(&sluicegate_cc::Registry::builtin())
}
