//! Processes that end with their owner.
#![expect(
    unsafe_code,
    reason = "std sends no other signal than SIGKILL, and none to process groups"
)]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Time that a process has to end after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// Time between two looks at a process.
const LOOK: Duration = Duration::from_millis(10);

/// A process with all that it starts, in a process group of its own. Dropping it ends them.
#[derive(Debug)]
pub struct Group {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Group {
    /// Starts a command, in the namespace of the thread.
    ///
    /// # Errors
    ///
    /// There is no such program.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        Ok(Self { child, ended: None })
    }

    /// Returns how the process ended; `None` while it runs.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Waits until the process has ended or `stop` returns true, but not longer than `limit`. Returns how it ended; `None` if it
    /// still runs.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub fn wait(
        &mut self,
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

    fn signal(&self, signal: libc::c_int) {
        let Ok(leader) = libc::pid_t::try_from(self.child.id()) else {
            return;
        };
        // SAFETY: takes no pointers. The group is the child's own, and its number is not used again before the child is waited for.
        unsafe { libc::kill(-leader, signal) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.ended.is_some() {
            return;
        }
        self.signal(libc::SIGTERM);
        if !matches!(self.wait(GRACE, || false), Ok(Some(_))) {
            self.signal(libc::SIGKILL);
            let _ = self.child.wait();
        }
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

    #[test]
    fn dropped_group_ends_with_all_its_processes() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo $!; wait"]);
        command.stdout(std::process::Stdio::piped());
        let mut group = Group::start(&mut command).expect("sh");
        let output = group.child.stdout.take().expect("piped");
        let mut line = String::new();
        let mut output = io::BufReader::new(output);
        io::BufRead::read_line(&mut output, &mut line).expect("a line");
        drop(group);
        // The pipe closes once no process of the group has it any more.
        let rest = io::Read::read_to_end(&mut output, &mut Vec::new());
        assert_eq!(rest.expect("the end"), 0);
    }

    #[test]
    fn wait_ends_at_the_limit_or_with_the_process() {
        let mut long = Group::start(Command::new("sleep").arg("60")).expect("sleep");
        assert!(long.wait(LOOK, || false).expect("waits").is_none());
        let stopped = long.wait(Duration::MAX, || true);
        assert!(stopped.expect("waits").is_none());
        let mut short = Group::start(&mut Command::new("true")).expect("true");
        let ended = short.wait(Duration::MAX, || false).expect("waits");
        assert!(ended.is_some_and(|status| status.success()));
    }
}
