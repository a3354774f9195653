//! Processes that end with their owner.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, exit};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Time that a process has to end after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// Time between two looks at a process.
const LOOK: Duration = Duration::from_millis(10);

/// Leaders of the groups that have not ended, for [`end_with_signals`].
static GROUPS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn groups() -> MutexGuard<'static, BTreeSet<u32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all groups and the process, from now on, when it gets SIGINT, SIGTERM or SIGHUP.
///
/// # Errors
///
/// The system takes no more handlers of signals, or no more threads.
pub fn end_with_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            // Held to the end, so that no further group starts.
            let groups = groups();
            end_groups(&groups);
            exit(128 + signal);
        }
    };
    thread::Builder::new().spawn(wait)?;
    Ok(())
}

/// A process with all that it starts, in a process group of its own. Dropping it ends them, also where the process itself has
/// ended before.
#[derive(Debug)]
pub struct Group {
    /// The leader. It is reaped on dropping only: until then no other group gets its number.
    child: Child,
}

impl Group {
    /// Starts a command, in the namespace of the thread.
    ///
    /// # Errors
    ///
    /// There is no such program.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut groups = groups();
        let child = command.process_group(0).spawn()?;
        groups.insert(child.id());
        Ok(Self { child })
    }

    /// Returns how the process ended; `None` while it runs.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub fn ended(&self) -> io::Result<Option<ExitStatus>> {
        let Some(process) = pid(self.child.id()) else {
            return Ok(None);
        };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(process), options)?;
        Ok(ended.map(|ended| {
            let code = ended.exit_status().map(|code| code << 8);
            ExitStatus::from_raw(code.or(ended.terminating_signal()).unwrap_or_default())
        }))
    }

    /// Waits until the process has ended or `stop` returns true, but not longer than `limit`. Returns how it ended; `None` if it
    /// still runs.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub fn wait(
        &self,
        limit: Duration,
        mut stop: impl FnMut() -> bool,
    ) -> io::Result<Option<ExitStatus>> {
        let mut ended = Ok(None);
        wait(limit, || {
            ended = self.ended();
            !matches!(ended, Ok(None)) || stop()
        });
        ended
    }
}

/// Asks the groups of these leaders to end, and ends them after a while.
fn end_groups(leaders: &BTreeSet<u32>) {
    for &leader in leaders {
        signal_group(leader, Signal::TERM);
    }
    wait(GRACE, || !leaders.iter().any(|&leader| group_runs(leader)));
    for &leader in leaders {
        signal_group(leader, Signal::KILL);
    }
}

/// Sends a signal to the group of a leader that was not waited for: until then its number is not used again.
fn signal_group(leader: u32, signal: Signal) {
    if let Some(leader) = pid(leader) {
        // It may have ended.
        let _ = kill_process_group(leader, signal);
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

fn group_runs(leader: u32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        // Where nobody can tell, it gets the whole time.
        return true;
    };
    let mut stats = processes.filter_map(|process| {
        // Not every entry is a process, and some have just ended.
        fs::read_to_string(process.ok()?.path().join("stat")).ok()
    });
    stats.any(|stat| runs_in(&stat, leader))
}

/// Returns whether a process of the kernel's files is of this group and has not ended.
fn runs_in(stat: &str, group: u32) -> bool {
    // A name may have any characters; behind it are state, parent and group.
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let mut fields = fields.split_whitespace();
    let (state, its_group) = (fields.next(), fields.nth(1));
    its_group.and_then(|field| field.parse().ok()) == Some(group)
        && !matches!(state, Some("Z" | "X"))
}

impl Drop for Group {
    fn drop(&mut self) {
        let leader = self.child.id();
        end_groups(&BTreeSet::from([leader]));
        // Its number may be another's once it was waited for.
        groups().remove(&leader);
        let _ = self.child.wait();
    }
}

/// Waits until `done` returns true, but not longer than `limit`.
#[expect(clippy::disallowed_methods, reason = "real programs run in real time")]
pub fn wait(limit: Duration, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() && start.elapsed() < limit {
        thread::park_timeout(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script that writes a line, drops it once `leader_ends` or the line is there, and returns once nothing of it has its
    /// output any more.
    fn run_and_drop(script: &str, leader_ends: bool) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdout(std::process::Stdio::piped());
        let mut group = Group::start(&mut command).expect("sh");
        let output = group.child.stdout.take().expect("piped");
        let mut line = String::new();
        let mut output = io::BufReader::new(output);
        io::BufRead::read_line(&mut output, &mut line).expect("a line");
        if leader_ends {
            let ended = group.wait(Duration::MAX, || false).expect("waits");
            assert!(ended.is_some_and(|status| status.code() == Some(3)));
        }
        drop(group);
        let rest = io::Read::read_to_end(&mut output, &mut Vec::new());
        assert_eq!(rest.expect("the end"), 0);
    }

    #[test]
    fn dropped_group_ends_with_all_its_processes() {
        run_and_drop("sleep 60 & echo $!; wait", false);
    }

    #[test]
    fn dropped_group_ends_with_those_that_its_leader_left() {
        run_and_drop("sleep 60 & echo $!; exit 3", true);
        // One that does not heed SIGTERM ends, too.
        run_and_drop("(trap '' TERM; echo; exec sleep 60) & exit 3", true);
    }

    #[test]
    fn status_tells_how_the_process_ended() {
        let mut command = Command::new("sh");
        let killed = Group::start(command.args(["-c", "kill -KILL $$"])).expect("sh");
        let ended = killed.wait(Duration::MAX, || false).expect("waits");
        assert_eq!(ended.and_then(|status| status.signal()), Some(Signal::KILL.as_raw()));
        assert_eq!(killed.ended().expect("still known"), ended);
    }

    #[test]
    fn group_of_a_process_is_behind_its_name() {
        let stat = |state| format!("7 (a) 1 2) {state} 1 12 5");
        assert!(runs_in(&stat('S'), 12));
        assert!(!runs_in(&stat('Z'), 12));
        assert!(!runs_in(&stat('S'), 1));
        assert!(!runs_in("", 12));
    }

    #[test]
    fn wait_ends_at_the_limit_or_with_the_process() {
        let long = Group::start(Command::new("sleep").arg("60")).expect("sleep");
        assert!(long.wait(LOOK, || false).expect("waits").is_none());
        let stopped = long.wait(Duration::MAX, || true);
        assert!(stopped.expect("waits").is_none());
        let short = Group::start(&mut Command::new("true")).expect("true");
        let ended = short.wait(Duration::MAX, || false).expect("waits");
        assert!(ended.is_some_and(|status| status.success()));
    }
}
