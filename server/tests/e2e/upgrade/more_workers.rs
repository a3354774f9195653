//! Upgrades to more workers than the running process has, and back.

use std::net::SocketAddr;

use tokio::task::LocalSet;

use super::kinds::Upload;
use super::load::{Download, Load, ask_as_strangers, ask_on};
use super::{Line, PIECE, assert_none_failed, kill, setup};
use crate::admin::{address, metrics};
use crate::client::{Client, run};
use crate::on_every_backend;
use crate::proxy::Upstream;
use crate::relay::Relay;
use crate::server::{PAGE, Setup};

on_every_backend!(
    no_request_fails_as_workers_come_and_go,
    clients_that_must_retry_get_in_as_workers_come_and_go,
    the_former_process_serves_again_if_one_with_more_workers_is_killed,
    the_first_process_reads_the_sockets_of_the_last_one,
    each_group_has_workers_of_its_own_number,
);

/// Size of a download, bytes: more than the windows of a client take.
const DOWNLOAD: u64 = 64 << 20;
/// Bytes of a download or an upload between two upgrades.
const STEP: u64 = 128 << 10;
/// Steps of the service from one process to another.
const STEPS: u64 = 5;

/// Returns a setup with so many workers.
fn with_workers(setup: &Setup, workers: usize) -> Setup {
    let cores = vec!["0"; workers].join(", ");
    setup.clone().replace("cores = [0, 0]\n", &format!("cores = [{cores}] # workers\n"))
}

impl Line {
    /// Has the server upgraded to so many workers while other tasks go on.
    async fn upgrade_to(&mut self, setup: &Setup, workers: usize) {
        self.rewrite(&with_workers(setup, workers));
        self.upgrade_beside().await;
    }
}

/// Waits until each of so many workers has received a datagram.
async fn all_receive(admin: SocketAddr, workers: usize) {
    for worker in 0..workers {
        let part = format!("{{group=\"default\",worker=\"{worker}\"");
        let receives = || {
            let all = metrics(admin);
            let mut all = all.iter();
            all.any(|(name, count)| {
                name.starts_with("sluicegate_received_datagrams_total")
                    && name.contains(&part)
                    && *count > 0.0
            })
        };
        while !receives() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

/// Clients of all kinds, with something open in each process.
struct Clients {
    load: Load,
    strangers: Load,
    upload: Upload,
    moving: Vec<Download>,
    behind_nat: (Relay, Download),
}

impl Clients {
    async fn begin(line: &Line) -> Clients {
        let at = line.server.address();
        let client = || Client::new(&line.folder);
        let relay = Relay::start(at).await;
        let behind_nat = Download::begin(client(), relay.address, DOWNLOAD).await;
        Clients {
            load: Load::start(4, |progress| ask_on(client(), at, progress)),
            strangers: Load::start(4, |progress| ask_as_strangers(client(), at, progress, 1)),
            upload: Upload::begin(&client(), at, STEPS * STEP).await,
            moving: Vec::new(),
            behind_nat: (relay, behind_nat),
        }
    }

    /// Begins a download in the process that serves.
    async fn add_download(&mut self, line: &Line) {
        let client = Client::new(&line.folder);
        self.moving.push(Download::begin(client, line.server.address(), DOWNLOAD).await);
    }

    async fn go_on(&mut self, line: &Line) {
        self.upload.go_on(STEP).await;
        for moving in &mut self.moving {
            moving.change_port();
            moving.go_on(STEP).await;
        }
        let (relay, behind_nat) = &mut self.behind_nat;
        relay.change_port();
        behind_nat.go_on(STEP).await;
        self.load.go_on(20).await;
        self.strangers.go_on(20).await;
        line.assert_serves().await;
    }

    async fn end(self) {
        self.load.end().await;
        self.strangers.end().await;
        self.upload.end().await;
        for moving in self.moving.into_iter().chain([self.behind_nat.1]) {
            moving.break_off().await;
        }
    }
}

/// From one to two, to three, back to two, and on to fewer and to more.
fn workers_come_and_go(backend: &str, tables: &str) -> Vec<String> {
    let upstream = Upstream::start();
    let setup = setup(backend).with(&format!("{tables}\n{}", upstream.route()));
    let mut line = Line::start(&with_workers(&setup, 1));
    let admin = address(&mut line.server);
    run(LocalSet::new().run_until(async {
        let mut clients = Clients::begin(&line).await;
        let mut second = String::new();
        for workers in [2, 3] {
            second.clone_from(&line.process);
            clients.add_download(&line).await;
            line.upgrade_to(&setup, workers).await;
            clients.go_on(&line).await;
            all_receive(admin, workers).await;
        }
        clients.add_download(&line).await;
        line.back_beside(&second).await;
        clients.go_on(&line).await;
        for workers in [2, 4] {
            clients.add_download(&line).await;
            line.upgrade_to(&setup, workers).await;
            clients.go_on(&line).await;
            all_receive(admin, workers).await;
        }
        clients.end().await;
    }));
    line.end()
}

fn no_request_fails_as_workers_come_and_go(backend: &str) {
    let said = workers_come_and_go(backend, "");
    assert_none_failed(&said);
}

fn clients_that_must_retry_get_in_as_workers_come_and_go(backend: &str) {
    workers_come_and_go(backend, "[quic]\nretry_above = 0");
}

/// The former process has the sockets of the newer one, and reads them.
fn the_former_process_serves_again_if_one_with_more_workers_is_killed(backend: &str) {
    let setup = setup(backend);
    let mut line = Line::start(&with_workers(&setup, 1));
    let (admin, at, first) =
        (address(&mut line.server), line.server.address(), line.process.clone());
    run(LocalSet::new().run_until(async {
        let mut long = line.download().await;
        line.upgrade_to(&setup, 3).await;
        kill(&line.process, "KILL");
        line.process = first;
        line.server.process.line_with(&["this process serves again"]);
        long.go_on(PIECE).await;
        let mut strangers =
            Load::start(4, |progress| ask_as_strangers(Client::new(&line.folder), at, progress, 1));
        strangers.go_on(40).await;
        for workers in [3, 2] {
            line.upgrade_to(&setup, workers).await;
            long.go_on(PIECE).await;
            strangers.go_on(40).await;
            all_receive(admin, workers).await;
        }
        strangers.end().await;
        long.end().await;
    }));
    line.end();
}

/// They came by the process between the two.
fn the_first_process_reads_the_sockets_of_the_last_one(backend: &str) {
    let setup = setup(backend);
    let mut line = Line::start(&with_workers(&setup, 1));
    let (admin, at) = (address(&mut line.server), line.server.address());
    run(LocalSet::new().run_until(async {
        let mut strangers =
            Load::start(4, |progress| ask_as_strangers(Client::new(&line.folder), at, progress, 1));
        let (mut downloads, mut processes) = (Vec::new(), Vec::new());
        for workers in [2, 4, 4] {
            downloads.push(line.download().await);
            processes.push(line.process.clone());
            if processes.len() < 3 {
                line.upgrade_to(&setup, workers).await;
            }
        }
        line.back_beside(&processes[1]).await;
        strangers.go_on(40).await;
        downloads.pop().unwrap().end().await;
        let line_of_its_end = ["a process that has drained has ended"];
        line.server.process.line_with(&line_of_its_end);
        line.back_beside(&processes[0]).await;
        strangers.go_on(40).await;
        for long in &mut downloads {
            long.go_on(PIECE).await;
        }
        line.upgrade_to(&setup, 5).await;
        strangers.go_on(40).await;
        all_receive(admin, 5).await;
        for long in downloads {
            long.end().await;
        }
        strangers.end().await;
    }));
    line.end();
}

/// A listener of another group keeps its one worker, and a third group comes with a listener of its own.
fn each_group_has_workers_of_its_own_number(backend: &str) {
    let group = |name: &str, cores: &str| {
        format!("[[group]]\nname = \"{name}\"\nbackend = \"{backend}\"\ncores = {cores}")
    };
    let with_listener = |setup: Setup, name: &str, group: &str| {
        let named = format!("[[listener]]\nname = \"{name}\"\n");
        setup
            .listener(name, "127.0.0.1:0", "cubic")
            .replace(&named, &format!("{named}group = \"{group}\"\n"))
    };
    let one = setup(backend).with(&group("other", "[0, 0] # other"));
    let one = with_listener(one, "second", "other");
    let mut line = Line::start(&one);
    let second = line.server.listener("second").0;
    let first = line.process.clone();
    run(async {
        let mut downloads = Vec::new();
        let all = [line.server.address(), second];
        for workers in [3, 1, 4] {
            for at in all {
                let mut long = Download::begin(Client::new(&line.folder), at, DOWNLOAD).await;
                long.go_on(1).await;
                downloads.push(long);
            }
            line.rewrite(&with_workers(&one, workers));
            line.upgrade_beside().await;
            for at in all.into_iter().cycle().take(16) {
                let mut session = Client::new(&line.folder).connect(at).await;
                assert_eq!(session.get("/").await.text().await, PAGE);
            }
            for long in &mut downloads {
                long.go_on(STEP).await;
            }
            if workers == 3 {
                line.back_to(&first);
                line.assert_serves().await;
            }
        }
        for long in downloads {
            long.break_off().await;
        }
    });
    line.end();
}
