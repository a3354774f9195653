//! The version of the kernel.

use sluicegate_dataplane::Backend;

use super::facts::HostFacts;
use super::files::{HostFiles, NoValue, nonsense};
use super::finding::{Fix, HostCheck, HostFinding};

const KERNEL: HostCheck = HostCheck { name: "kernel", source: "docs/dataplane.md" };
/// Oldest version that is tested.
const OLDEST: (u32, u32) = (5, 10);
/// Oldest version whose io_uring has what the server uses.
const RING: (u32, u32) = (6, 1);

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    let (major, minor) = match release(&facts.files) {
        Ok(version) => version,
        Err(cause) => return vec![KERNEL.unknown("", cause)],
    };
    let found = format!("Linux {major}.{minor}");
    let update = Fix::Advice("update the kernel, or the distribution".to_owned());
    let named = facts.socket_groups().find(|group| group.group.backend == Backend::IoUring);
    if let Some(group) = named.filter(|_| (major, minor) < RING) {
        let found = format!("{found}; the group {} names the backend io_uring", group.name());
        let mio = Fix::Configuration(format!("backend = \"mio\" in the group {}", group.name()));
        return vec![KERNEL.impossible("", found, "Linux 6.1 or newer for io_uring", mio)];
    }
    if (major, minor) < OLDEST {
        return vec![KERNEL.warning("", found, "Linux 5.10 or newer", update)];
    }
    vec![KERNEL.fine("", found)]
}

/// Returns the major and minor number of the running kernel.
pub(super) fn release(files: &HostFiles) -> Result<(u32, u32), NoValue> {
    const FILE: &str = "proc/sys/kernel/osrelease";
    let text = files.text(FILE)?;
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err(nonsense(FILE, &text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState::{Fine, Impossible, Unknown, Warning};
    use crate::doctor::scratch::Scratch;

    #[test]
    fn old_kernels_are_named() {
        let host = Scratch::new();
        let state = |keys: &str| host.with(keys, |facts| check(facts)[0].state);
        assert_eq!(state(""), Unknown);
        for (release, auto, ring) in [
            ("6.18.44-fc-v595\n", Fine, Fine),
            ("6.1.0-32-amd64", Fine, Fine),
            ("5.15.0-generic", Fine, Impossible),
            ("5.4.0", Warning, Impossible),
            ("10.0", Fine, Fine),
            ("", Unknown, Unknown),
            ("linux", Unknown, Unknown),
            ("99999999999.1", Unknown, Unknown),
        ] {
            host.write("proc/sys/kernel/osrelease", release);
            let states = (state(""), state("backend = \"io_uring\""));
            assert_eq!(states, (auto, ring), "{release}");
        }
    }
}
