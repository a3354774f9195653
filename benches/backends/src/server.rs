//! The server of a contender.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::contender::{Contender, Kind};
use crate::network::Network;
use sluicegate_compare::cpu::Cpu;

/// Longest start, and longest stop.
const LIMIT: Duration = Duration::from_secs(20);

/// A running server with one worker.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Lines of its log.
    lines: Receiver<String>,
}

impl Server {
    /// Starts the program in the server's namespace and waits until it serves. `keys`: core of its worker, and further keys
    /// of its group. `folder` is for its files.
    pub(crate) fn start(
        program: &Path,
        network: &Network,
        contender: &Contender,
        keys: (usize, &[String]),
        folder: &Path,
    ) -> Result<Self> {
        network.prepare(contender)?;
        fs::create_dir_all(folder)?;
        let file = folder.join(format!("{}.toml", contender.name));
        fs::write(&file, configuration(network, contender, keys))?;
        let program = program.display().to_string();
        let file = file.display().to_string();
        let mut child = network
            .command(&[&program, "run", "-c", &file])
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let errors = BufReader::new(child.stderr.take().context("the server's log")?);
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let server = Self { child, lines };
        let mut last = String::new();
        while let Ok(line) = server.lines.recv_timeout(LIMIT) {
            if line.contains("workers opened their drivers") {
                return Ok(server);
            }
            last = line;
        }
        bail!("{} does not start: {last}", contender.name)
    }

    /// Returns the number of its process.
    pub(crate) fn id(&self) -> String {
        self.child.id().to_string()
    }

    /// Returns the CPU time used so far.
    pub(crate) fn cpu(&self) -> Result<Cpu> {
        Cpu::read(&self.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.id()).status();
        // The log ends with the process.
        while self.lines.recv_timeout(LIMIT).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(
    network: &Network,
    contender: &Contender,
    (core, keys): (usize, &[String]),
) -> String {
    let address = network.server();
    let backend = match contender.dataplane {
        Kind::Sockets(backend) => format!("backend = \"{backend}\""),
        Kind::AfXdp | Kind::AfPacket => format!(
            "backend = \"dpdk\"\n[group.dpdk]\ndevice = \"{}\"\naddresses = [\"{}/24\"]",
            contender.on(&network.interface()),
            address.ip()
        ),
    };
    format!(
        "[[group]]\nname = \"default\"\ncores = [{core}]\n{}\n{backend}\n\
         [[listener]]\nname = \"public\"\naddress = \"{address}\"\ntls = \"self-signed\"\n\
         [[route]]\npath = \"/bytes/\"\n[route.generate]\n",
        keys.join("\n")
    )
}
