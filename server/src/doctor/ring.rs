//! Whether the workers may use `io_uring`.

use sluicegate_dataplane::{Backend, OpenError};

use super::facts::HostFacts;
use super::finding::{Fix, HostCheck, HostFinding};
use super::limits;
use super::needs::ServedGroup;

const RING: HostCheck = HostCheck {
    name: "io_uring",
    source: "io_uring_setup(2); Linux admin-guide/sysctl/kernel, io_uring_disabled; docs/dataplane.md",
};
const SYSCTL: &str = "kernel.io_uring_disabled";
/// Profile of a container, and what it is.
const PROFILE: &str = "seccomp.json";
const PROFILE_TEXT: &str = "; seccomp.json is a copy of Docker's default profile, with io_uring_setup, io_uring_enter and io_uring_register \
                            among the allowed names";

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    facts.socket_groups().map(|group| of_group(facts, group)).collect()
}

fn of_group(facts: &HostFacts<'_>, group: &ServedGroup<'_>) -> HostFinding {
    if group.group.backend == Backend::Mio {
        return RING.skipped(group.name(), "the group has the backend mio");
    }
    let Err(error) = facts.probe.rings(group) else {
        let found =
            "every worker can open its io_uring, which sends and receives with few system calls";
        return RING.fine(group.name(), found);
    };
    let (cause, fix) = cause(facts, group, &error);
    let profile = match &fix {
        Fix::Container(options) if options.contains(PROFILE) => PROFILE_TEXT,
        _ => "",
    };
    if group.group.backend == Backend::IoUring {
        let found = format!("{cause}, and the group names the backend io_uring");
        let wanted = format!("io_uring, or another `backend`{profile}");
        return RING.impossible(group.name(), found, &wanted, fix);
    }
    let found = format!("{cause}; the backend `auto` takes mio instead, with more system calls");
    let wanted = format!("io_uring, or `backend = \"mio\"` to say that it is not wanted{profile}");
    RING.warning(group.name(), found, &wanted, fix)
}

/// Returns why a ring cannot be opened, and the remedy.
fn cause(facts: &HostFacts<'_>, group: &ServedGroup<'_>, error: &OpenError) -> (String, Fix) {
    let files = &facts.files;
    let mio = Fix::Configuration(format!("backend = \"mio\" in the group {}", group.name()));
    let code = error.source.raw_os_error();
    match code {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            let disabled = files.value::<u8>("proc/sys/kernel/io_uring_disabled").unwrap_or(0);
            if disabled > 0 {
                let cause = format!("the kernel's setting {SYSCTL} = {disabled} forbids io_uring");
                return (cause, Fix::Sysctls(vec![(SYSCTL, "0".to_owned())]));
            }
            if is_filtered(facts) {
                let cause = format!(
                    "a filter of system calls (seccomp; that of {}) forbids io_uring",
                    files.owner()
                );
                return (cause, allow(facts));
            }
            (format!("the kernel has no io_uring for this process ({})", error.source), mio)
        }
        Some(libc::EINVAL | libc::EOPNOTSUPP) => {
            let cause =
                format!("the kernel's io_uring is too old: {} ({})", error.step, error.source);
            (
                cause,
                Fix::Advice(
                    "update the kernel to Linux 6.1 or newer, or set `backend = \"mio\"`"
                        .to_owned(),
                ),
            )
        }
        Some(libc::ENOMEM) => {
            let cause = "the limit of locked memory leaves too little for io_uring".to_owned();
            (cause, limits::raise_locked(facts, limits::RING_MEMORY))
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            let cause = "the limit of open files leaves none for io_uring".to_owned();
            (cause, limits::raise_open_files(facts))
        }
        _ => (format!("io_uring cannot be opened: {error}"), mio),
    }
}

/// Returns whether a filter of system calls is in force.
fn is_filtered(facts: &HostFacts<'_>) -> bool {
    facts.files.own_status("Seccomp").is_some_and(|mode| mode != "0")
}

/// Returns how a filter is made to allow it.
fn allow(facts: &HostFacts<'_>) -> Fix {
    if facts.files.is_container() {
        return Fix::Container(format!("--security-opt seccomp={PROFILE}"));
    }
    let setting = "SystemCallFilter=io_uring_setup io_uring_enter io_uring_register";
    Fix::Host(limits::drop_in("io-uring", setting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState::{Fine, Impossible, NotApplicable, Warning};
    use crate::doctor::scratch::Scratch;

    fn refused(host: &Scratch, code: i32) -> [HostFinding; 2] {
        host.probe().refuse_rings(code);
        ["", "backend = \"io_uring\""].map(|keys| host.with(keys, |facts| check(facts).remove(0)))
    }

    #[test]
    fn a_ring_that_opens_is_fine_and_one_that_nobody_wants_is_not_opened() {
        let host = Scratch::new();
        let state = |keys| host.with(keys, |facts| check(facts)[0].state);
        assert_eq!((state(""), state("backend = \"io_uring\"")), (Fine, Fine));
        host.probe().refuse_rings(libc::EPERM);
        assert_eq!(state("backend = \"mio\""), NotApplicable);
    }

    #[test]
    fn each_cause_has_its_remedy() {
        for (files, code, cause, place, remedy) in [
            (
                &[("proc/sys/kernel/io_uring_disabled", "2")][..],
                libc::EPERM,
                "io_uring_disabled = 2",
                "host",
                "sysctl -w kernel.io_uring_disabled=0",
            ),
            (
                &[("proc/self/status", "Seccomp:\t2\n"), (".dockerenv", "")],
                libc::EPERM,
                "seccomp",
                "container",
                "docker run --security-opt seccomp=",
            ),
            (
                &[("proc/self/status", "Seccomp:\t2\n")],
                libc::ENOSYS,
                "seccomp",
                "host",
                "SystemCallFilter=io_uring_setup",
            ),
            (
                &[
                    ("proc/self/status", "Seccomp:\t0\n"),
                    ("proc/sys/kernel/io_uring_disabled", "0"),
                ],
                libc::ENOSYS,
                "has no io_uring",
                "configuration",
                "backend = \"mio\"",
            ),
            (
                &[("proc/sys/kernel/io_uring_disabled", "nonsense")],
                libc::EPERM,
                "has no io_uring",
                "configuration",
                "backend",
            ),
            (&[], libc::EINVAL, "too old", "host", "Linux 6.1"),
            (&[], libc::ENOMEM, "locked memory", "host", "LimitMEMLOCK=256M"),
            (&[], libc::EMFILE, "open files", "host", "LimitNOFILE="),
            (&[], libc::EIO, "cannot be opened", "configuration", "backend = \"mio\""),
        ] {
            let host = Scratch::new();
            for (name, text) in files {
                host.write(name, text);
            }
            let [auto, named] = refused(&host, code);
            assert_eq!((auto.state, named.state), (Warning, Impossible), "{auto:?}");
            assert!(auto.found.contains(cause) && auto.found.contains("takes mio"), "{auto:?}");
            let fix = named.fix.unwrap();
            assert_eq!(fix.place(), place, "{fix:?}");
            assert!(fix.text().contains(remedy), "{fix:?}");
        }
    }

    #[test]
    fn an_error_without_a_number_is_told_as_it_is() {
        let host = Scratch::new();
        host.probe().refuse_rings_without_a_number();
        assert!(host.with("", |facts| check(facts).remove(0)).found.contains("cannot be opened"));
    }
}
