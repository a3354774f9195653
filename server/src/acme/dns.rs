//! TXT records that prove names (DNS-01, RFC 8555 §8.4). A program of the operator's adds and removes them: it knows the DNS provider.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use sluicegate_base::observe::acme::AcmeFailure;

use super::error::AcmeError;

/// Time for one run of the program: providers may answer slowly.
const LIMIT: Duration = Duration::from_secs(120);
/// Pause between two looks at whether it has ended.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of its messages that the log gets: the last ones, which name the error.
const MESSAGES: usize = 512;

/// A record that the authority looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TxtRecord {
    /// Fully qualified, with a dot at the end.
    name: String,
    value: String,
}

impl TxtRecord {
    /// Returns the record by which `domain` and names below it are proved.
    pub(super) fn new(domain: &str, value: String) -> TxtRecord {
        TxtRecord { name: format!("_acme-challenge.{domain}."), value }
    }
}

/// Action of the program: its first argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum HookAction {
    Present,
    CleanUp,
}

impl HookAction {
    fn word(self) -> &'static str {
        match self {
            HookAction::Present => "present",
            HookAction::CleanUp => "cleanup",
        }
    }
}

/// Kills the program if nobody waits for it any more, and collects it in any case.
#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has the program add or remove a record.
///
/// # Errors
/// It cannot be run, fails, or takes too long.
pub(super) async fn run_hook(
    program: &Path,
    action: HookAction,
    record: &TxtRecord,
) -> Result<(), AcmeError> {
    let failed = |cause: String| {
        let (program, action) = (program.display(), action.word());
        let cause = format!("{program} {action} {} {cause}", record.name);
        AcmeError::new(AcmeFailure::Hook, cause)
    };
    let spawned = Command::new(absolute(program))
        .args([action.word(), &record.name, &record.value])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut running = Running(spawned.map_err(|error| failed(format!("cannot run: {error}")))?);
    let messages = running.0.stderr.take().map(|stderr| thread::spawn(move || last_bytes(stderr)));
    let status = tokio::time::timeout(LIMIT, ended(&mut running.0)).await;
    let Ok(status) = status else {
        return Err(failed(format!("has not ended after {} s", LIMIT.as_secs())));
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        // A process that the program has left behind may keep the pipe open.
        Ok(status) => {
            let ended = messages.filter(thread::JoinHandle::is_finished);
            let said = ended.and_then(|messages| messages.join().ok()).unwrap_or_default();
            Err(failed(format!("ended with {status}: {}", said.trim_end().escape_debug())))
        }
        Err(error) => Err(failed(format!("cannot be waited for: {error}"))),
    }
}

/// A bare name would be looked for in $PATH.
fn absolute(program: &Path) -> PathBuf {
    std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
}

async fn ended(child: &mut Child) -> io::Result<ExitStatus> {
    loop {
        tokio::time::sleep(PAUSE).await;
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
    }
}

/// Reads to the end, so that the program never waits, and returns the last bytes as text.
fn last_bytes(mut from: impl io::Read) -> String {
    let (mut last, mut block) = (Vec::new(), [0; MESSAGES]);
    while let Ok(count @ 1..) = from.read(&mut block) {
        last.extend_from_slice(&block[..count]);
        last.drain(..last.len().saturating_sub(MESSAGES));
    }
    String::from_utf8_lossy(&last).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Runs a shell script as the program, and returns the error.
    async fn run(script: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("hook");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
        let record = TxtRecord::new("example.com", "value".to_owned());
        let ran = run_hook(&program, HookAction::Present, &record).await;
        ran.err().map(|error| error.to_string())
    }

    #[tokio::test]
    async fn program_gets_action_name_and_value() {
        let script = "test \"$*\" = 'present _acme-challenge.example.com. value'";
        assert_eq!(run(script).await, None);
    }

    #[tokio::test]
    async fn failure_has_the_last_message_of_the_program() {
        let error = run("yes | head -c 100000 >&2; echo no such zone >&2; sleep 0.1; exit 3").await;
        let error = error.unwrap();
        assert!(error.contains("exit status: 3") && error.contains("no such zone;"), "{error}");
        assert!(error.len() < 2 * MESSAGES + 300, "{error}");
        let missing = Path::new("/nowhere/hook");
        let record = TxtRecord::new("example.com", String::new());
        let error = run_hook(missing, HookAction::CleanUp, &record).await.unwrap_err().to_string();
        assert!(error.contains("/nowhere/hook cleanup") && error.contains("cannot run"), "{error}");
    }

    #[tokio::test]
    async fn program_that_is_not_waited_for_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("echo $$ >{}; exec sleep 60", file.display());
        let ran = tokio::time::timeout(Duration::from_millis(500), run(&script)).await;
        assert!(ran.is_err(), "{ran:?}");
        let pid = fs::read_to_string(file).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists());
    }
}
