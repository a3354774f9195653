//! The incident on real sockets, as its operator sees it: the product with the algorithm of then, a client, and the commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::error::RealNetError;
use super::product::{ProductServer, own_client, start_first};
use crate::collapse::{self, LossOn};
use crate::linkem::{Emulator, Group, Link, Network, wait};

/// Admin address, in the server's namespace.
const ADMIN: &str = "127.0.0.1:9180";
/// Trouble that the commands are to name.
const TROUBLE: &str = "window_floor";
/// Time within which the flight recorder's file is there once the trouble is named.
const FILE: Duration = Duration::from_secs(5);
/// Time without trouble after which a download has none.
const PATIENCE: Duration = Duration::from_secs(8);

/// One download over the path of the collapse.
#[derive(Clone, Copy, Debug)]
pub struct Incident<'a> {
    /// The product, with the algorithm among its names.
    pub program: &'a Path,
    /// Congestion control of the server.
    pub algorithm: &'a str,
    /// Seed of the losses.
    pub seed: u64,
    /// Core of the server's worker.
    pub core: usize,
    /// Folder of the traces, which is made.
    pub folder: &'a Path,
}

/// Outputs of the commands while the download ran.
#[derive(Clone, Debug)]
pub struct Named {
    /// Output of `why`, without arguments.
    pub list: String,
    /// Output of `why ID`.
    pub story: String,
    /// File of the flight recorder.
    pub file: PathBuf,
    /// Output of `qlog summary` for it.
    pub summary: String,
}

/// A download and its picture.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// File of the picture.
    pub picture: PathBuf,
    /// Whether the window stayed at its floor by the verdict on its trace, and no losses explain it.
    pub is_stuck: bool,
}

/// Programs that run during a download. The client ends before the server.
struct Running {
    client: Group,
    _server: ProductServer,
    _emulator: Emulator,
    network: Network,
}

impl Incident<'_> {
    /// Lets the client download, and asks the server until it names the trouble. Returns what it said; `None` if the download had no
    /// trouble.
    ///
    /// # Errors
    ///
    /// There is no network, or a program does not start.
    pub fn watch(&self) -> Result<Option<Named>, RealNetError> {
        let running = self.start(0.0)?;
        let mut list = String::new();
        let mut failure = None;
        wait(PATIENCE, || match running.ask(self.program, &["why", "--admin", ADMIN]) {
            Ok(text) => {
                list = text;
                list.contains(TROUBLE)
            }
            Err(error) => {
                failure = Some(error);
                true
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        let line = list.lines().find(|line| line.contains(TROUBLE));
        let Some(id) = line.and_then(|line| line.split_whitespace().next()) else {
            return Ok(None);
        };
        let story = running.ask(self.program, &["why", "--admin", ADMIN, id])?;
        let mut file = None;
        wait(FILE, || {
            file = self.traces().ok().and_then(|files| files.into_iter().find(is_of_trouble));
            file.is_some()
        });
        // The server has written all of the file once it has ended.
        drop(running);
        let Some(file) = file else {
            let name = self.folder.display().to_string();
            return Err(RealNetError::Program(
                name,
                "the flight recorder wrote no file".to_owned(),
            ));
        };
        let summary = run(Command::new(self.program).args(["qlog", "summary"]).arg(&file))?;
        Ok(Some(Named { list, story, file, summary }))
    }

    /// Lets the client download, for as long as the collapse allows, with a trace, and draws that.
    ///
    /// # Errors
    ///
    /// As [`Incident::watch`].
    pub fn draw(&self) -> Result<Drawn, RealNetError> {
        let running = self.start(1.0)?;
        running.client.wait(collapse::LIMIT, || false)?;
        drop(running);
        let Some(trace) = self.traces()?.pop() else {
            let name = self.folder.display().to_string();
            return Err(RealNetError::Program(name, "the server wrote no trace".to_owned()));
        };
        let picture = self.folder.join(format!("{}.svg", self.algorithm));
        let mut command = Command::new(self.program);
        command.args(["qlog", "plot"]).arg(&trace).arg("--output").arg(&picture);
        run(&mut command)?;
        let summary = run(Command::new(self.program).args(["qlog", "summary"]).arg(&trace))?;
        Ok(Drawn { picture, is_stuck: is_stuck(&summary) })
    }

    fn start(&self, sample_rate: f64) -> Result<Running, RealNetError> {
        fs::create_dir_all(self.folder)?;
        let path = collapse::scenario("cubic".into(), LossOn::Down, self.seed);
        let mut network = Network::new()?;
        let emulator = network.join(Link::new(&path.down, &path.up, self.seed))?;
        let tables = format!(
            "[qlog]\ndirectory = {:?}\nsample_rate = {sample_rate}\n[admin]\naddress = \"{ADMIN}\"\n",
            fs::canonicalize(self.folder)?
        );
        let (program, algorithm) = (self.program, self.algorithm);
        let server = ProductServer::start_with(&network, program, algorithm, self.core, &tables)?;
        let client = start_first(&network.client, &mut own_client(program, collapse::BYTES))?;
        Ok(Running { client, _server: server, _emulator: emulator, network })
    }

    fn traces(&self) -> Result<Vec<PathBuf>, RealNetError> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "sqlog") {
                files.push(path);
            }
        }
        Ok(files)
    }
}

impl Running {
    /// Returns the output of a command that asks the server.
    fn ask(&self, program: &Path, arguments: &[&str]) -> Result<String, RealNetError> {
        self.network.server.within(|| run(Command::new(program).args(arguments)))?
    }
}

/// Returns whether the worst verdict of a summary is a window at its floor that nothing explains. A download that was stuck for seconds
/// may still end in time.
fn is_stuck(summary: &str) -> bool {
    let mut lines = summary.lines().skip_while(|line| !line.starts_with("verdict "));
    let is_pinned = lines.next().is_some_and(|line| line.contains("pinned at the floor"));
    is_pinned && lines.next().is_some_and(|evidence| !evidence.contains("which explains it"))
}

/// Returns whether the flight recorder wrote a file because of the trouble: other causes may come before it.
fn is_of_trouble(file: &PathBuf) -> bool {
    fs::read_to_string(file).is_ok_and(|text| {
        text.lines().any(|line| line.contains("sluicegate:trigger") && line.contains(TROUBLE))
    })
}

/// Runs a command to its end. Returns its output.
fn run(command: &mut Command) -> Result<String, RealNetError> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(RealNetError::Program(format!("{command:?}"), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn download_is_stuck_by_the_worst_verdict_alone() {
        let told = |verdict: &str, evidence: &str| {
            format!(
                "a.sqlog\nverdict     {verdict}, from 2.100 s to 7.600 s\n            {evidence}\nalso        pinned at the floor\n"
            )
        };
        let pinned = "pinned at the floor";
        assert!(is_stuck(&told(pinned, "0 of 224 packets lost meanwhile")));
        assert!(!is_stuck(&told(pinned, "13 of 224 packets lost meanwhile, which explains it")));
        assert!(!is_stuck(&told("persistent loss", "30 % lost")));
        assert!(!is_stuck(""));
    }
}
