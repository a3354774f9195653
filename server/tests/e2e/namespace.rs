//! Network namespaces.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use sluicegate_dataplane::requirements::skip;

use crate::server::{Folder, Server, Setup};

/// Runs ignored tests of this program, so many, in a network namespace that may have others behind veths. Where there is none, they
/// are skipped.
pub(crate) fn run_ignored(tests: &str, number: usize) {
    let trial = "ip link add inner type veth peer name outer && exec unshare -n true";
    let possible = Command::new("unshare").args(["-rn", "sh", "-c", trial]).output();
    if !possible.as_ref().is_ok_and(|output| output.status.success()) {
        return skip("namespace", &format_args!("no veth in a network namespace: {possible:?}"));
    }
    let output = Command::new("unshare")
        .arg("-rn")
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", tests])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert!(said.contains(&format!("{number} passed")));
}

/// A network namespace beside that of the test. Removed when dropped.
pub(crate) struct Namespace {
    /// Process that lives as long as the namespace is needed.
    holder: Child,
}

impl Namespace {
    pub(crate) fn new() -> Namespace {
        let mut holder = Command::new("unshare")
            .args(["-n", "sh", "-c", "echo there; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(holder.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        Namespace { holder }
    }

    /// Returns the system's number of a process in it.
    pub(crate) fn holder(&self) -> String {
        self.holder.id().to_string()
    }

    /// Runs a script in it, and returns what it says.
    pub(crate) fn sh(&self, script: &str) -> String {
        sh(&format!("nsenter -t {} -n sh -c '{script}'", self.holder.id()))
    }

    /// Starts a server in it.
    pub(crate) fn start(&self, setup: &Setup, folder: &Folder) -> Server {
        let words = ["nsenter", "-t", &self.holder(), "-n", "sh", "-c"];
        Server::start_within(&words, "exec \"$@\"", setup, folder)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Runs a script in the namespace of the test, and returns what it says.
pub(crate) fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
