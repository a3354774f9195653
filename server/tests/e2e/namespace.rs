//! Network namespaces.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::server::{Folder, Server, Setup};

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
