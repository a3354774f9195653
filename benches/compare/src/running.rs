//! Servers as processes.

use std::cell::RefCell;
use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::network::Host;

/// A start and a stop take ten seconds at most, in steps of this length.
const STEP: Duration = Duration::from_millis(50);
const STEPS: usize = 200;
/// Lines of its output in an error.
const LINES: usize = 5;
/// Line that the product prints once it serves. A port of DPDK binds no socket.
const READY: &str = "workers opened their drivers";

/// A program of a server, and how to start it.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Its configuration, if it has one: name and text.
    pub(crate) file: Option<(String, String)>,
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    name: String,
    child: RefCell<Child>,
    /// File with what it prints.
    output: PathBuf,
}

/// Port or line by which a server is known to serve.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Port {
    Udp(SocketAddr),
    Tcp(SocketAddr),
}

impl Server {
    /// Starts a server on a core of a host and waits until it has its port.
    pub(crate) fn start(
        program: &Program,
        host: &Host,
        folder: &Path,
        core: usize,
        port: Port,
    ) -> Result<Self> {
        if let Some((file, text)) = &program.file {
            fs::write(folder.join(file), text)?;
        }
        let name = program.name.clone();
        let output = folder.join(format!("{name}.output"));
        let log = File::create(&output)?;
        let child = host
            .on_core(core)
            .arg(&program.program)
            .args(&program.arguments)
            .current_dir(folder)
            .env("HOME", folder)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("taskset or nsenter, of util-linux, does not start")?;
        let server = Self { name, child: RefCell::new(child), output };
        for _ in 0..STEPS {
            if bound(&server.id(), port)? || server.said().contains(READY) {
                return Ok(server);
            }
            server.check()?;
            thread::park_timeout(STEP);
        }
        bail!("{} does not bind {port:?}: {}", server.name, server.last())
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

    fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Returns the last lines that it has printed.
    fn last(&self) -> String {
        let said = self.said();
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

    /// Ends it, if it has not ended.
    pub(crate) fn stop(&self) {
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

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns whether a socket in the network namespace of a process is bound to an IPv4 address.
fn bound(process: &str, port: Port) -> Result<bool> {
    let (file, address, state) = match port {
        // A bound UDP socket is in state 7, a listening TCP socket in state 10.
        Port::Udp(address) => ("udp", address, "07"),
        Port::Tcp(address) => ("tcp", address, "0A"),
    };
    let IpAddr::V4(ip) = address.ip() else {
        bail!("{address} is no address of IPv4");
    };
    let ours = format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port());
    // That of a process that has ended cannot be read.
    let table = fs::read_to_string(format!("/proc/{process}/net/{file}")).unwrap_or_default();
    Ok(table.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&ours.as_str()) && words.get(3) == Some(&state)
    }))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn a_bound_port_is_seen() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(bound("self", Port::Udp(udp.local_addr().unwrap())).unwrap());
        assert!(bound("self", Port::Tcp(tcp.local_addr().unwrap())).unwrap());
        assert!(!bound("self", Port::Udp((Ipv4Addr::LOCALHOST, 9).into())).unwrap());
    }
}
