//! Servers as processes.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::peer;

/// A start and a stop take ten seconds at most, in steps of this length.
const STEP: Duration = Duration::from_millis(50);
const STEPS: usize = 200;
/// Lines of its output in an error.
const LINES: usize = 5;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    name: String,
    child: RefCell<Child>,
    /// File with what it prints.
    output: PathBuf,
}

/// Protocols whose ports a server binds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Port {
    Udp(u16),
    Tcp(u16),
}

impl Server {
    /// Starts a server on a core and waits until it has its port.
    pub(crate) fn start(
        name: &str,
        command: &peer::Command,
        folder: &Path,
        core: usize,
        port: Port,
    ) -> Result<Self> {
        if let Some((file, text)) = &command.file {
            fs::write(folder.join(file), text)?;
        }
        let output = folder.join(format!("{name}.output"));
        let log = File::create(&output)?;
        let child = Command::new("taskset")
            .args(["-c", &core.to_string()])
            .arg(&command.program)
            .args(&command.arguments)
            .current_dir(folder)
            .env("HOME", folder)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("taskset, of util-linux, does not start")?;
        let server = Self { name: name.to_owned(), child: RefCell::new(child), output };
        for _ in 0..STEPS {
            if bound(port)? {
                return Ok(server);
            }
            server.check()?;
            thread::park_timeout(STEP);
        }
        bail!("{name} does not bind {port:?}: {}", server.last())
    }

    /// Checks that it runs.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(status) = self.child.borrow_mut().try_wait()? {
            bail!("{} ended with {status}: {}", self.name, self.last());
        }
        Ok(())
    }

    /// Returns the last lines that it has printed.
    fn last(&self) -> String {
        let said = fs::read_to_string(&self.output).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        if lines.is_empty() {
            return "it prints nothing".to_owned();
        }
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Returns the number of its process.
    pub(crate) fn id(&self) -> String {
        self.child.borrow().id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.check().is_ok() {
            let _ = Command::new("kill").arg(self.id()).status();
        }
        for _ in 0..STEPS {
            if self.check().is_err() {
                return;
            }
            thread::park_timeout(STEP);
        }
        // What is below it ends with the process namespace.
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Returns whether a socket of this network namespace is bound to a port of 127.0.0.1.
fn bound(port: Port) -> Result<bool> {
    let (file, port, state) = match port {
        // A bound UDP socket is in state 7, a listening TCP socket in state 10.
        Port::Udp(port) => ("/proc/self/net/udp", port, "07"),
        Port::Tcp(port) => ("/proc/self/net/tcp", port, "0A"),
    };
    let ours = format!("0100007F:{port:04X}");
    let table = fs::read_to_string(file)?;
    Ok(table.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&ours.as_str()) && words.get(3) == Some(&state)
    }))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn a_bound_port_is_seen() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(bound(Port::Udp(udp.local_addr().unwrap().port())).unwrap());
        assert!(bound(Port::Tcp(tcp.local_addr().unwrap().port())).unwrap());
        assert!(!bound(Port::Udp(9)).unwrap());
    }
}
