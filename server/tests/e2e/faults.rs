//! Faults of the process and of the system around it: the service goes on, says what is wrong, and recovers.

mod clock;
mod descriptors;
mod disk;
mod flapping;
mod nginx;
mod panic;
mod upstreams;

use std::collections::BTreeSet;
use std::process::Command;

use crate::server::Process;

/// Sets the soft limit of a resource of the process, as `prlimit` names it.
pub(crate) fn limit(process: &Process, resource: &str, soft: &str) {
    let pid = process.id().to_string();
    let limit = format!("--{resource}={soft}:");
    let status = Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap();
    assert!(status.success());
}

/// Returns the lowest number that no descriptor of the process has: a limit of it leaves none.
pub(crate) fn lowest_free(process: &Process) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap();
    let open = open.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let open: BTreeSet<usize> = open.map(|name| name.parse().unwrap()).collect();
    (0..).find(|number| !open.contains(number)).unwrap()
}
