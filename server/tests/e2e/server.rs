//! The binary as a process, and what it says.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use boring::x509::X509;
use sluicegate_base::tls::Identity;
use tempfile::TempDir;

use crate::installed;

/// Longest wait for anything that a process should do.
const WAIT_LIMIT: Duration = Duration::from_secs(90);
/// Lines of a process that a failed test shows: the cause, which is printed before them, must stay in sight.
const LAST_LINES: usize = 40;
/// Body of the response for `/`.
pub(crate) const PAGE: &str = "It is served.\n";

/// A folder with a certificate for `localhost` and 127.0.0.1, and whatever a server keeps.
pub(crate) struct Folder {
    folder: TempDir,
    /// Certificate in the form that clients take.
    pub(crate) certificate: rustls::pki_types::CertificateDer<'static>,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        let folder = tempfile::tempdir().unwrap();
        let made = Identity::self_signed().unwrap();
        std::fs::write(folder.path().join("cert.pem"), &made.chain).unwrap();
        let mut private = std::fs::OpenOptions::new();
        let private = private.write(true).create(true).mode(0o600);
        let mut key = private.open(folder.path().join("key.pem")).unwrap();
        std::io::Write::write_all(&mut key, &made.key).unwrap();
        let certificate = X509::from_pem(&made.chain).unwrap().to_der().unwrap();
        Folder { folder, certificate: certificate.into() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A configuration: two workers of `backend`, the page, the byte generator, and what is added.
#[derive(Clone)]
pub(crate) struct Setup {
    text: String,
}

impl Setup {
    pub(crate) fn new(backend: &str) -> Setup {
        let text = format!(
            "[[group]]\nname = \"default\"\nbackend = \"{backend}\"\n\
             [[route]]\npath = \"/\"\n[route.fixed]\nbody = {PAGE:?}\n\
             [[route]]\npath = \"/bytes/\"\n[route.generate]\n"
        );
        Setup { text }
    }

    /// Returns a whole configuration as it is.
    pub(crate) fn of(text: String) -> Setup {
        Setup { text }
    }

    /// Adds a listener with the folder's certificate.
    pub(crate) fn listener(mut self, name: &str, address: &str, algorithm: &str) -> Setup {
        writeln!(
            self.text,
            "[[listener]]\nname = \"{name}\"\naddress = \"{address}\"\n\
             congestion_control = \"{algorithm}\"\n\
             [listener.tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\""
        )
        .unwrap();
        self
    }

    /// Returns the setup with a text replaced.
    pub(crate) fn replace(self, from: &str, to: &str) -> Setup {
        let text = self.text.replace(from, to);
        assert_ne!(text, self.text);
        Setup { text }
    }

    /// Adds whole tables.
    pub(crate) fn with(mut self, tables: &str) -> Setup {
        writeln!(self.text, "{tables}").unwrap();
        self
    }
}

/// A running process; killed when dropped.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    /// Lines of both outputs so far.
    pub(crate) said: Vec<String>,
}

impl Process {
    /// Starts the binary.
    pub(crate) fn start(arguments: &[&str], folder: &Path) -> Process {
        Process::start_told(arguments, folder, &[])
    }

    /// Starts the binary with these environment variables on top.
    fn start_told(arguments: &[&str], folder: &Path, told: &[(&str, &str)]) -> Process {
        let mut command = Command::new(installed::server());
        command.args(arguments).envs(told.iter().copied()).stdin(Stdio::null());
        Process::spawn(command, folder)
    }

    /// Starts a command line in `folder`.
    #[cfg(feature = "dpdk")]
    pub(crate) fn of(words: &[&str], folder: &Path) -> Process {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        Process::spawn(command, folder)
    }

    /// Starts a server with two bound sockets, as a service manager passes them (LISTEN_FDS).
    pub(crate) fn with_sockets(
        setup: &Setup,
        folder: &Folder,
        [first, second]: [OwnedFd; 2],
    ) -> Process {
        let file = Server::write(setup, folder);
        let script = r#"exec 3<&0 4<&1 </dev/null >&2; LISTEN_PID=$$ LISTEN_FDS=2 exec "$@""#;
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh", installed::server()])
            .args(["run", "-c", &file])
            .stdin(first)
            .stdout(second);
        Process::follow(command, folder.folder.path())
    }

    /// Starts a command in `folder`.
    pub(crate) fn spawn(mut command: Command, folder: &Path) -> Process {
        command.stdout(Stdio::piped());
        Process::follow(command, folder)
    }

    /// Starts a command in `folder`, and reads those of its outputs that are pipes.
    fn follow(mut command: Command, folder: &Path) -> Process {
        let mut child = command
            .current_dir(folder)
            .env("NO_COLOR", "1")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            follow(output, sender.clone());
        }
        follow(child.stderr.take().unwrap(), sender);
        Process { child, lines, said: Vec::new() }
    }

    /// Waits for the next line that holds all of `parts`.
    pub(crate) fn line_with(&mut self, parts: &[&str]) -> String {
        loop {
            match self.lines.recv_timeout(WAIT_LIMIT) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if parts.iter().all(|part| line.contains(part)) {
                        return line;
                    }
                }
                Err(error) => panic!("no line with {parts:?} ({error}) in {:#?}", self.said),
            }
        }
    }

    /// Returns whether it has said a line that holds `part`.
    pub(crate) fn has_said(&mut self, part: &str) -> bool {
        self.said.extend(self.lines.try_iter());
        self.said.iter().any(|line| line.contains(part))
    }

    /// Returns the system's number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the memory that the process holds, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.kib("VmRSS:")
    }

    /// Returns what of it is not of files, in KiB.
    pub(crate) fn anonymous_kib(&self) -> u64 {
        self.kib("RssAnon:")
    }

    fn kib(&self, key: &str) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let mut words = status.split_whitespace();
        words.find(|word| *word == key).unwrap();
        words.next().unwrap().parse().unwrap()
    }

    /// Descriptors that are open on files below `folder`.
    pub(crate) fn open_files(&self, folder: &Path) -> usize {
        let folder = folder.canonicalize().unwrap();
        let links = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        // One that is closed meanwhile has no target.
        let targets = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(&folder)).count()
    }

    /// Asks it to end, as a service manager does.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends it that signal.
    pub(crate) fn signal(&self, name: &str) {
        let order = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &order]).status().unwrap();
        assert!(status.success());
    }

    /// Ends it without a chance to say anything.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and answers all that it said once it has.
    pub(crate) fn last_words(&mut self) -> Vec<String> {
        self.terminate();
        assert_eq!(self.wait().code(), Some(0), "{:#?}", self.said);
        self.said.clone()
    }

    /// Returns how many lines it has said that hold `part`.
    pub(crate) fn count_said(&mut self, part: &str) -> usize {
        self.said.extend(self.lines.try_iter());
        self.said.iter().filter(|line| line.contains(part)).count()
    }

    /// Returns whether it has closed its outputs, as have all processes that it has started.
    pub(crate) fn has_ended(&mut self) -> bool {
        loop {
            match self.lines.try_recv() {
                Ok(line) => self.said.push(line),
                Err(error) => return error == TryRecvError::Disconnected,
            }
        }
    }

    /// Waits until the process closes its outputs, and returns its exit status.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        loop {
            match self.lines.recv_timeout(WAIT_LIMIT) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) => return self.child.wait().unwrap(),
                Err(RecvTimeoutError::Timeout) => panic!("it goes on: {:#?}", self.said),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.said.extend(self.lines.try_iter());
            let from = self.said.len().saturating_sub(LAST_LINES);
            println!("the process said last: {:#?}", &self.said[from..]);
        }
    }
}

fn follow(output: impl Read + Send + 'static, sender: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
}

/// A server that answers.
pub(crate) struct Server {
    pub(crate) process: Process,
    /// Name, address and start line of each listener, in the order of the configuration.
    listeners: Vec<(String, SocketAddr, String)>,
}

impl Server {
    /// Starts a server in `folder` and waits until all of its listeners are announced.
    pub(crate) fn start(setup: &Setup, folder: &Folder) -> Server {
        Server::start_told(setup, folder, &[])
    }

    /// Starts the server with these environment variables on top.
    pub(crate) fn start_told(setup: &Setup, folder: &Folder, told: &[(&str, &str)]) -> Server {
        let file = Server::write(setup, folder);
        let process = Process::start_told(&["run", "-c", &file], folder.folder.path(), told);
        Server::announced(process, setup)
    }

    /// Starts the server with two bound sockets, and waits until all of its listeners are announced.
    pub(crate) fn start_with_sockets(
        setup: &Setup,
        folder: &Folder,
        sockets: [OwnedFd; 2],
    ) -> Server {
        Server::announced(Process::with_sockets(setup, folder, sockets), setup)
    }

    /// Starts the server as the last part of a shell's script, in the surroundings that `words` make.
    pub(crate) fn start_within(
        words: &[&str],
        script: &str,
        setup: &Setup,
        folder: &Folder,
    ) -> Server {
        let file = Server::write(setup, folder);
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args([script, "sh", installed::server()])
            .args(["run", "-c", &file])
            .stdin(Stdio::null());
        Server::announced(Process::spawn(command, folder.folder.path()), setup)
    }

    /// Writes the configuration and returns its path.
    pub(crate) fn write(setup: &Setup, folder: &Folder) -> String {
        let file = folder.path("sluicegate.toml");
        std::fs::write(&file, &setup.text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Waits until every listener is announced.
    fn announced(mut process: Process, setup: &Setup) -> Server {
        let count = setup.text.matches("[[listener]]").count();
        let listeners = (0..count).map(|_| {
            let line = process.line_with(&["listening", "listener=", "address="]);
            let address = field(&line, "address").parse().unwrap();
            (field(&line, "listener"), address, line)
        });
        let listeners = listeners.collect();
        Server { process, listeners }
    }

    /// Starts a server with one listener "main" of `cubic` on a free port.
    pub(crate) fn simple(backend: &str, folder: &Folder) -> Server {
        Server::start(&Setup::new(backend).listener("main", "127.0.0.1:0", "cubic"), folder)
    }

    /// Has it read another configuration, and waits until it says one of `words` about it.
    pub(crate) fn reload(&mut self, setup: &Setup, folder: &Folder, words: &str) -> String {
        std::fs::write(folder.path("sluicegate.toml"), &setup.text).unwrap();
        self.process.signal("HUP");
        self.process.line_with(&["configuration", words])
    }

    /// Returns the address of the only or first listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listeners[0].1
    }

    /// Returns the address and start line of a listener.
    pub(crate) fn listener(&self, name: &str) -> (SocketAddr, &str) {
        let mut all = self.listeners.iter();
        let (_, address, line) = all.find(|(found, ..)| found == name).unwrap();
        (*address, line)
    }
}

/// Returns the value of `key=value` in a log line.
pub(crate) fn field(line: &str, key: &str) -> String {
    let mut pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
    let value = pairs.find(|(found, _)| *found == key);
    let (_, value) = value.unwrap_or_else(|| panic!("no {key} in: {line}"));
    value.trim_matches('"').to_owned()
}

/// Returns a counter of the server's last lines.
pub(crate) fn total(said: &[String], subject: &str, counter: &str) -> u64 {
    let subject = format!("total of {subject}");
    let line = said.iter().find(|line| line.contains(&subject));
    let line = line.unwrap_or_else(|| panic!("no {subject} in {said:#?}"));
    field(line, counter).parse().unwrap()
}
