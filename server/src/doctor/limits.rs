//! Limits of the process: memory to lock, and open files.

use super::facts::HostFacts;
use super::files::{NoValue, nonsense};
use super::finding::{Fix, HostCheck, HostFinding};
use super::sockets::size;

const LOCKED: HostCheck =
    HostCheck { name: "locked_memory", source: "getrlimit(2), RLIMIT_MEMLOCK; deploy/README.md" };
const OPEN_FILES: HostCheck =
    HostCheck { name: "open_files", source: "getrlimit(2), RLIMIT_NOFILE; deploy/README.md" };

/// Memory that `deploy/sluicegate.service` lets the process lock, bytes.
pub(super) const RING_MEMORY: u64 = 256 << 20;
/// Size of a transmit buffer, bytes.
const BUFFER: u64 = 64 << 10;
/// Requests of a worker to files and upstreams below which a limit of open files is worth a warning.
pub(crate) const ENOUGH_REQUESTS: u64 = 1024;

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    vec![locked(facts), open_files(facts)]
}

/// Returns a command that adds a setting to the unit of systemd.
pub(super) fn drop_in(name: &str, setting: &str) -> String {
    const FOLDER: &str = "/etc/systemd/system/sluicegate.service.d";
    format!(
        "mkdir -p {FOLDER} && printf '[Service]\\n{setting}\\n' >{FOLDER}/{name}.conf && systemctl daemon-reload"
    )
}

/// Returns what lets the process lock so many bytes.
pub(super) fn raise_locked(facts: &HostFacts<'_>, bytes: u64) -> Fix {
    if facts.files.is_container() {
        return Fix::Container(format!("--ulimit memlock={bytes}:{bytes}"));
    }
    let mebibytes = bytes.div_ceil(1 << 20);
    Fix::Host(drop_in("locked-memory", &format!("LimitMEMLOCK={mebibytes}M")))
}

/// Returns what lets the process open as many files as the configuration needs.
pub(super) fn raise_open_files(facts: &HostFacts<'_>) -> Fix {
    // What the unit of systemd and compose.yaml have, if that suffices.
    let limit = facts.needs.open_files.wanted.max(524_288);
    if facts.files.is_container() {
        return Fix::Container(format!("--ulimit nofile={limit}:{limit}"));
    }
    Fix::Host(drop_in("open-files", &format!("LimitNOFILE={limit}")))
}

fn locked(facts: &HostFacts<'_>) -> HostFinding {
    let groups = facts.socket_groups().filter(|group| group.group.driver.zero_copy > 0);
    let needed = groups.map(|group| {
        let buffers = group.cores.len() * group.addresses.len() * group.group.driver.tx_slots;
        buffers as u64 * BUFFER
    });
    let needed: u64 = needed.sum();
    if needed == 0 {
        return LOCKED.skipped("", "no group sends without copying (`zero_copy`)");
    }
    if may_lock_all(facts) {
        return LOCKED.fine("", "this process may lock any amount of memory");
    }
    let limit = match lockable(facts) {
        Ok(limit) => limit,
        Err(cause) => return LOCKED.unknown("", cause),
    };
    let (limit_size, owner) = (size(limit), facts.files.owner());
    let found = format!("a process may lock {limit_size} of memory (limit of {owner})");
    if limit >= needed {
        return LOCKED.fine("", found);
    }
    let found = format!("{found}; workers that reach the limit copy what they send");
    let wanted = format!("{}, for sending without copies (`zero_copy`)", size(needed));
    LOCKED.warning("", found, &wanted, raise_locked(facts, needed.max(RING_MEMORY)))
}

/// Returns whether the process has CAP_IPC_LOCK, for which no limit holds.
fn may_lock_all(facts: &HostFacts<'_>) -> bool {
    const IPC_LOCK: u32 = 14;
    let held = facts.files.own_status("CapEff");
    let held = held.and_then(|hex| u64::from_str_radix(&hex, 16).ok());
    held.is_some_and(|held| held >> IPC_LOCK & 1 == 1)
}

/// Returns the memory that the process may lock, bytes.
fn lockable(facts: &HostFacts<'_>) -> Result<u64, NoValue> {
    const FILE: &str = "proc/self/limits";
    let text = facts.files.text(FILE)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    match soft {
        Some("unlimited") => Ok(u64::MAX),
        Some(number) => number.parse().map_err(|_| nonsense(FILE, number)),
        None => Err(nonsense(FILE, &text)),
    }
}

fn open_files(facts: &HostFacts<'_>) -> HostFinding {
    let files = facts.needs.open_files;
    let Some(limit) = files.limit else {
        return OPEN_FILES.fine("", "a process of this user may open any number of files");
    };
    let (exchanges, connections) = (files.exchanges, files.tcp_connections);
    let owner = facts.files.owner();
    let found = format!(
        "a process may open {limit} files (limit of {owner}), which leaves a worker {exchanges} requests to files and upstreams, and \
         {connections} connections over TCP, at a time"
    );
    if exchanges >= ENOUGH_REQUESTS {
        return OPEN_FILES.fine("", found);
    }
    let wanted =
        format!("{} or more, for {ENOUGH_REQUESTS} such requests of each worker", files.wanted);
    OPEN_FILES.warning("", found, &wanted, raise_open_files(facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState::{Fine, NotApplicable, Unknown, Warning};
    use crate::doctor::scratch::{Scratch, only};

    #[test]
    fn memory_to_lock_is_compared_with_what_sends_without_copies_need() {
        const KEYS: &str = "cores = [0, 0]\nzero_copy = \"32KiB\"\ntx_slots = 64";
        let host = Scratch::new();
        let find = |keys: &str| host.with(keys, |facts| only(check(facts), "locked_memory"));
        assert_eq!(find("").state, NotApplicable);
        assert_eq!(find(KEYS).state, Unknown);
        let limits = |value: &str| {
            format!(
                "Limit  Soft Limit  Hard Limit  Units\nMax locked memory   {value}   {value}   bytes\n"
            )
        };
        for (value, expected) in [
            ("8388608", Fine),
            ("8388607", Warning),
            ("0", Warning),
            ("unlimited", Fine),
            ("18446744073709551615", Fine),
            ("18446744073709551616", Unknown),
            ("many", Unknown),
        ] {
            host.write("proc/self/limits", &limits(value));
            assert_eq!(find(KEYS).state, expected, "{value}");
        }
        host.write("proc/self/limits", &limits("65536"));
        assert!(find(KEYS).fix.unwrap().text().contains("LimitMEMLOCK=256M"));
        host.write(".dockerenv", "");
        let fix = find(KEYS).fix.unwrap();
        assert_eq!(fix.text(), "docker run --ulimit memlock=268435456:268435456 ...");
        // CAP_IPC_LOCK.
        host.write("proc/self/status", "CapEff:\t0000000000004000\n");
        assert_eq!(find(KEYS).state, Fine);
        host.write("proc/self/status", "CapEff:\tzzz\n");
        assert_eq!(find(KEYS).state, Warning);
    }

    #[test]
    fn few_open_files_are_named_with_what_they_leave() {
        let host = Scratch::new();
        let find = |limit, exchanges| {
            host.with("", |facts| {
                facts.needs.open_files.limit = limit;
                facts.needs.open_files.exchanges = exchanges;
                only(check(facts), "open_files")
            })
        };
        assert_eq!(find(None, u64::MAX).state, Fine);
        assert_eq!(find(Some(u64::MAX), u64::MAX).state, Fine);
        let few = find(Some(1024), 64);
        assert_eq!(few.state, Warning);
        assert!(few.found.contains("may open 1024 files"), "{few:?}");
        assert!(few.fix.unwrap().text().contains("LimitNOFILE=524288"));
    }
}
