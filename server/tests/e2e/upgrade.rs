//! The server is replaced by a new process while clients are served.

mod afterwards;
mod back;
mod datagrams;
mod faults;
mod killed;
mod kinds;
pub(crate) mod load;
mod more_workers;
mod scrapes;
mod status;
mod values;

use std::process::Command;
use std::time::Duration;

use tokio::task::LocalSet;

use self::load::{Download, Load, ask_as_strangers, ask_on};
use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, run};
use crate::installed;
use crate::namespace::Namespace;
use crate::on_every_backend;
use crate::server::{Folder, PAGE, Server, Setup};
use crate::tcp::{PROTOCOLS, curl};

on_every_backend!(
    no_request_fails_while_the_server_is_upgraded,
    clients_that_must_retry_get_in_during_an_upgrade,
    #[ignore = "long: two hundred upgrades"]
    no_request_fails_in_two_hundred_upgrades,
);

/// Upgrades in a row, which take less than 15 s where the machine has nothing else to do.
const ROW: u64 = 50;
/// Upgrades during which one download goes on, from the first process to the last.
const CHAIN: u64 = 8;
/// Bytes of it between two upgrades.
const PIECE: u64 = 1 << 20;
/// Size of the download, bytes.
const LONG: u64 = 2 * CHAIN * PIECE;

fn setup(backend: &str) -> Setup {
    Setup::new(backend)
        .with("[server]\nstate_dir = \"state\"\ndrain_timeout = \"5m\"")
        .with(ADMIN)
        .replace(
            "[[group]]\nname = \"default\"\n",
            "[[group]]\nname = \"default\"\ncores = [0, 0]\n",
        )
        .listener("main", "127.0.0.1:0", "cubic")
}

/// A server of several processes, one after the other. The last one ends with it.
pub(crate) struct Line {
    pub(crate) server: Server,
    folder: Folder,
    /// Process that serves.
    process: String,
}

impl Line {
    fn start(setup: &Setup) -> Line {
        Line::start_in(setup, Folder::new())
    }

    /// Starts the first process in a folder.
    pub(crate) fn start_in(setup: &Setup, folder: Folder) -> Line {
        Line::of(Server::start(setup, &folder), folder)
    }

    /// Starts the first process in a folder, in a network of its own.
    pub(crate) fn start_within(namespace: &Namespace, setup: &Setup, folder: Folder) -> Line {
        Line::of(namespace.start(setup, &folder), folder)
    }

    fn of(server: Server, folder: Folder) -> Line {
        let process = server.process.id().to_string();
        Line { server, folder, process }
    }

    /// Returns a command of `sluicegate` that asks the server, with these arguments.
    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let socket = self.folder.path("state/control.sock");
        let mut command = Command::new(installed::server());
        command.arg(name).arg("--socket").arg(socket).args(arguments);
        command
    }

    /// Runs `upgrade`. Returns its exit code, and what it says.
    fn ask(&self, arguments: &[&str]) -> (Option<i32>, String) {
        said(self.command("upgrade", arguments))
    }

    /// Runs it while other tasks go on.
    async fn ask_beside(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let command = self.command("upgrade", arguments);
        let thread = std::thread::spawn(|| said(command));
        while !thread.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        thread.join().unwrap()
    }

    /// Has the process that serves reload.
    fn reload(&self, setup: &Setup) {
        self.rewrite(setup);
        let (code, said) = said(self.command("reload", &[]));
        assert_eq!(code, Some(0), "{said}");
    }

    /// Begins a download, which keeps the process that serves from ending.
    async fn download(&self) -> Download {
        let client = Client::new(&self.folder);
        let mut long = Download::begin(client, self.server.address(), LONG).await;
        long.go_on(PIECE).await;
        long
    }

    /// Upgrades during a download, and tells the former process, which drains for it, to stop. Returns the download.
    async fn upgrade_and_stop_the_former(&mut self) -> Download {
        let long = self.download().await;
        let former = self.process.clone();
        self.upgrade();
        kill(&former, "TERM");
        self.server.process.line_with(&["drains already"]);
        long
    }

    /// Checks that a new client of each protocol gets the page.
    async fn assert_serves(&self) {
        let mut session = Client::new(&self.folder).connect(self.server.address()).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
        for protocol in PROTOCOLS {
            let page = curl(&self.server, &self.folder, &[protocol], "/");
            assert!(page.is_none_or(|page| page == PAGE.as_bytes()));
        }
    }

    /// Writes another configuration, for the next process.
    pub(crate) fn rewrite(&self, setup: &Setup) {
        Server::write(setup, &self.folder);
    }

    /// Asks the process that serves to end.
    pub(crate) fn terminate(&self) {
        kill(&self.process, "TERM");
    }

    /// Starts a process again in the same folder, after all have ended.
    pub(crate) fn start_again(&mut self, namespace: &Namespace, setup: &Setup) {
        self.server = namespace.start(setup, &self.folder);
        self.process = self.server.process.id().to_string();
    }

    /// Has the server upgraded.
    fn upgrade(&mut self) {
        let result = self.ask(&[]);
        self.go_on(result);
    }

    /// Has the server upgraded while other tasks go on.
    pub(crate) async fn upgrade_beside(&mut self) {
        let result = self.ask_beside(&[]).await;
        self.go_on(result);
    }

    fn go_on(&mut self, (code, said): (Option<i32>, String)) {
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(&format!("process {} drains", self.process)), "{said}");
        let process = said.split_whitespace().nth(1).unwrap().to_owned();
        assert_ne!(process, self.process);
        self.process = process;
    }

    /// Ends the process that serves, and waits for the end of all.
    pub(crate) fn end(mut self) -> Vec<String> {
        self.terminate();
        assert_eq!(self.server.process.wait().code(), Some(0), "{:#?}", self.server.process.said);
        self.server.process.said.clone()
    }
}

fn kill(process: &str, signal: &str) {
    let order = format!("kill -{signal} {process}");
    assert!(Command::new("sh").args(["-c", &order]).status().unwrap().success());
}

fn said(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// A test that fails leaves no process behind.
impl Drop for Line {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // It may have ended.
            let _ =
                Command::new("sh").args(["-c", &format!("kill -KILL {}", self.process)]).status();
        }
    }
}

/// Checks that a request was not served because the server goes away. One that crosses GOAWAY is rejected unseen, which says that it may
/// be sent again (RFC 9114 §4.1.1).
pub(crate) fn assert_is_going_away(error: &h3::error::StreamError) {
    let said = error.to_string();
    let is_going_away = error.is_h3_no_error() || said.contains("Remote is closing");
    assert!(is_going_away || said.contains("H3_REQUEST_REJECTED"), "{said}");
}

fn no_request_fails_while_the_server_is_upgraded(backend: &str) {
    requests_go_on(&setup(backend), ROW);
}

fn no_request_fails_in_two_hundred_upgrades(backend: &str) {
    requests_go_on(&setup(backend), 200);
}

/// The connection of a client that got a Retry has an ID that the process of the Retry has made.
fn clients_that_must_retry_get_in_during_an_upgrade(backend: &str) {
    let mut line = Line::start(&setup(backend).with("[quic]\nretry_above = 0"));
    let at = line.server.address();
    run(LocalSet::new().run_until(async {
        let mut load =
            Load::start(8, |progress| ask_as_strangers(Client::new(&line.folder), at, progress, 1));
        for _ in 0..3 {
            line.upgrade_beside().await;
            load.go_on(20).await;
        }
        load.end().await;
    }));
    let said = line.end();
    let retries = said.iter().filter(|text| text.contains("total of connections"));
    assert!(retries.into_iter().any(|text| !text.contains("retries=0 ")), "{said:#?}");
}

fn requests_go_on(setup: &Setup, upgrades: u64) {
    let mut line = Line::start(setup);
    let (admin, at) = (address(&mut line.server), line.server.address());
    let has_curl =
        PROTOCOLS.iter().all(|one| curl(&line.server, &line.folder, &[one], "/").is_some());
    run(LocalSet::new().run_until(async {
        let mut load = Load::start(4, |progress| ask_on(Client::new(&line.folder), at, progress));
        let mut long = line.download().await;
        for number in 0..upgrades {
            line.upgrade_beside().await;
            long.go_on(PIECE).await;
            if number % CHAIN == CHAIN - 1 {
                let next = line.download().await;
                std::mem::replace(&mut long, next).end().await;
            }
            load.go_on(20).await;
            if has_curl {
                for protocol in PROTOCOLS {
                    let page = curl(&line.server, &line.folder, &[protocol], "/");
                    assert_eq!(page.as_deref(), Some(PAGE.as_bytes()));
                }
            }
        }
        assert!(metrics(admin)["sluicegate_datagrams_handed_over_total"] > 0.0);
        long.end().await;
        load.end().await;
    }));
    let said = line.end();
    let served = said.iter().filter(|text| text.contains("upgrade: this process has taken over"));
    assert_eq!(served.count() as u64, upgrades);
    assert_none_failed(&said);
}

/// Checks that no process has failed a request.
pub(crate) fn assert_none_failed(said: &[String]) {
    for totals in said.iter().filter(|text| text.contains("total of requests")) {
        for zero in ["malformed=0", "cancelled=0", "errors=0", "status_5xx=0"] {
            assert!(totals.contains(zero), "{totals}");
        }
    }
    assert!(!said.iter().any(|text| text.contains("ERROR")), "{said:#?}");
}
