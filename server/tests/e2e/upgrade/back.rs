//! The way back: the former process serves again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{LocalSet, spawn_local};

use super::{LONG, Line, PIECE, ask_on, assert_is_going_away, said, setup};
use crate::admin::{address, metrics};
use crate::client::{Client, Counted, run};
use crate::relay::Relay;
use crate::server::{PAGE, Server, Setup};
use crate::tcp::{PROTOCOLS, curl};
use crate::{on_auto, on_every_backend};

on_every_backend!(no_request_fails_on_the_way_there_and_back_twice);

on_auto!(
    clients_that_must_retry_keep_their_connections_on_the_way_back,
    either_process_may_be_killed_on_the_way_back,
    a_process_that_stops_does_not_take_the_service,
    the_most_recent_process_serves_again_and_then_the_one_before,
    one_alone_serves_again_of_several_that_drain,
    a_former_process_without_a_listener_does_not_serve_again,
    without_a_former_process_there_is_no_way_back,
);

impl Line {
    /// Has the former process serve again, which is the one of this number.
    pub(super) fn back_to(&mut self, former: &str) {
        let result = self.ask(&["--back"]);
        self.return_to(former, result);
    }

    /// Does so while other tasks go on.
    async fn back_beside(&mut self, former: &str) {
        let command = self.command(&["--back"]);
        let thread = std::thread::spawn(|| said(command));
        while !thread.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.return_to(former, thread.join().unwrap());
    }

    fn return_to(&mut self, former: &str, (code, said): (Option<i32>, String)) {
        let expected =
            format!("process {former} serves again, and process {} drains", self.process);
        assert!(code == Some(0) && said.contains(&expected), "{said}");
        self.process = former.to_owned();
    }
}

/// Checks that a new client of each protocol gets the page.
async fn assert_serves(line: &Line) {
    let mut session = Client::new(&line.folder).connect(line.server.address()).await;
    assert_eq!(session.get("/").await.text().await, PAGE);
    for protocol in PROTOCOLS {
        let page = curl(&line.server, &line.folder, &[protocol], "/");
        assert!(page.is_none_or(|page| page == PAGE.as_bytes()));
    }
}

fn kill(process: &str, signal: &str) {
    let order = format!("kill -{signal} {process}");
    assert!(std::process::Command::new("sh").args(["-c", &order]).status().unwrap().success());
}

/// A download goes on in each process, so all of them drain until the end.
fn no_request_fails_on_the_way_there_and_back_twice(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let (admin, at) = (address(&mut line.server), line.server.address());
    let first = line.process.clone();
    run(LocalSet::new().run_until(async {
        let (stop, count) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let load: Vec<_> = (0..4)
            .map(|_| {
                let client = Client::new(&line.folder);
                spawn_local(ask_on(client, at, Rc::clone(&stop), Rc::clone(&count)))
            })
            .collect();
        let mut downloads = Vec::new();
        for step in 0..4 {
            let slow = Client::new(&line.folder).taking(64 << 10);
            let mut session = slow.connect(at).await;
            let long = session.get(&format!("/bytes/{LONG}")).await;
            downloads.push((session, long, Counted::default()));
            if step % 2 == 0 {
                line.upgrade_beside().await;
            } else {
                line.back_beside(&first).await;
            }
            for (_, long, counted) in &mut downloads {
                let target = counted.bytes + PIECE;
                long.count(counted, target).await;
            }
            let until = count.get() + 20;
            while count.get() < until && !load.iter().any(|task| task.is_finished()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert_serves(&line).await;
            assert!(metrics(admin)["sluicegate_connections_accepted_total"] > 0.0);
        }
        for (_, long, counted) in &mut downloads {
            long.count_to_the_end(counted, LONG).await;
        }
        drop(downloads);
        stop.set(true);
        for task in load {
            task.await.unwrap();
        }
    }));
    let said = line.end();
    let again = said.iter().filter(|text| text.contains("upgrade: this process serves again"));
    assert_eq!(again.count(), 2);
    for totals in said.iter().filter(|text| text.contains("total of requests")) {
        for zero in ["malformed=0", "cancelled=0", "errors=0", "status_5xx=0"] {
            assert!(totals.contains(zero), "{totals}");
        }
    }
    assert!(!said.iter().any(|text| text.contains("ERROR")), "{said:#?}");
}

/// Connections of one process have IDs that the Retry of the other one has made.
fn clients_that_must_retry_keep_their_connections_on_the_way_back(backend: &str) {
    let mut line = Line::start(&setup(backend).with("[quic]\nretry_above = 0"));
    let (first, at) = (line.process.clone(), line.server.address());
    run(LocalSet::new().run_until(async {
        let (stop, count) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let load: Vec<_> = (0..8)
            .map(|_| {
                let client = Client::new(&line.folder);
                let (stop, count) = (Rc::clone(&stop), Rc::clone(&count));
                spawn_local(async move {
                    while !stop.get() {
                        // Without a token of an earlier connection.
                        let client = client.elsewhere(std::net::Ipv4Addr::LOCALHOST);
                        let mut session = client.connect(at).await;
                        // A few requests, so that the connection is there when the sockets change sides.
                        for _ in 0..4 {
                            match session.try_get("/").await {
                                Ok(response) => assert_eq!(response.text().await, PAGE),
                                Err(error) => {
                                    assert_is_going_away(&error);
                                    break;
                                }
                            }
                        }
                        count.set(count.get() + 1);
                    }
                })
            })
            .collect();
        // Without it, the first process might have drained before the way back.
        let mut session = Client::new(&line.folder).taking(64 << 10).connect(at).await;
        let mut long = session.get(&format!("/bytes/{LONG}")).await;
        let mut counted = Counted::default();
        long.count(&mut counted, PIECE).await;
        for step in 0..6 {
            let until = count.get() + 20;
            if step % 2 == 0 {
                line.upgrade_beside().await;
            } else {
                line.back_beside(&first).await;
            }
            while count.get() < until && !load.iter().any(|task| task.is_finished()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        long.count_to_the_end(&mut counted, LONG).await;
        stop.set(true);
        for task in load {
            task.await.unwrap();
        }
    }));
    line.end();
}

/// Handshakes that stay open keep the newer process from changing sides.
fn either_process_may_be_killed_on_the_way_back(backend: &str) {
    for kills_newer in [true, false] {
        let setup = setup(backend).with("[limits]\nhandshake_timeout = \"300s\"");
        let mut line = Line::start(&setup);
        let (first, at) = (line.process.clone(), line.server.address());
        run(async {
            let mut session = Client::new(&line.folder).taking(64 << 10).connect(at).await;
            let mut long = session.get(&format!("/bytes/{LONG}")).await;
            let mut counted = Counted::default();
            long.count(&mut counted, PIECE).await;
            line.upgrade();
            let relay = Relay::start_for(at, 1).await;
            let _halfway = Client::new(&line.folder).dial(relay.address).await;
            let command = line.command(&["--back"]);
            let asking = std::thread::spawn(|| said(command));
            line.server.process.line_with(&["back to the former process"]);
            if kills_newer {
                kill(&line.process, "KILL");
                line.process = first;
                line.server.process.line_with(&["this process serves again"]);
                assert_ne!(asking.join().unwrap().0, Some(0));
                long.count_to_the_end(&mut counted, LONG).await;
            } else {
                kill(&first, "KILL");
                let (code, said) = asking.join().unwrap();
                assert!(code == Some(2) && said.contains("has ended"), "{said}");
            }
            assert_serves(&line).await;
        });
        if kills_newer {
            line.upgrade();
            line.end();
        } else {
            kill(&line.process, "TERM");
        }
    }
}

fn a_process_that_stops_does_not_take_the_service(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let (first, at) = (line.process.clone(), line.server.address());
    run(async {
        let mut session = Client::new(&line.folder).taking(64 << 10).connect(at).await;
        let mut long = session.get(&format!("/bytes/{LONG}")).await;
        let mut counted = Counted::default();
        long.count(&mut counted, PIECE).await;
        line.upgrade();
        kill(&first, "TERM");
        line.server.process.line_with(&["drains already"]);
        let (code, said) = line.ask(&["--back"]);
        assert!(code == Some(2) && said.contains("was told to stop"), "{said}");
        assert_serves(&line).await;
        long.count_to_the_end(&mut counted, LONG).await;
    });
    line.end();
}

fn the_most_recent_process_serves_again_and_then_the_one_before(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let at = line.server.address();
    let mut processes = Vec::new();
    run(async {
        let mut downloads = Vec::new();
        for number in 0..3 {
            processes.push(line.process.clone());
            let slow = Client::new(&line.folder).taking(64 << 10);
            let mut session = slow.connect(at).await;
            let mut long = session.get(&format!("/bytes/{LONG}")).await;
            let mut counted = Counted::default();
            long.count(&mut counted, PIECE).await;
            downloads.push((session, long, counted));
            if number < 2 {
                line.upgrade();
            }
        }
        line.back_to(&processes[1]);
        assert_serves(&line).await;
        let (code, said) = line.ask(&["--back"]);
        let still = format!("process {} still drains", processes[2]);
        assert!(code == Some(2) && said.contains(&still), "{said}");
        for (_, long, counted) in &mut downloads {
            let target = counted.bytes + PIECE;
            long.count(counted, target).await;
        }
        let (newest, mut long, mut counted) = downloads.pop().unwrap();
        long.count_to_the_end(&mut counted, LONG).await;
        drop((newest, long));
        line.server.process.line_with(&["a process that has drained has ended"]);
        line.back_to(&processes[0]);
        assert_serves(&line).await;
        for (_, long, counted) in &mut downloads {
            long.count_to_the_end(counted, LONG).await;
        }
    });
    line.end();
}

/// Two would read the same sockets.
fn one_alone_serves_again_of_several_that_drain(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let at = line.server.address();
    run(async {
        let (mut downloads, mut processes) = (Vec::new(), Vec::new());
        for number in 0..3 {
            processes.push(line.process.clone());
            let slow = Client::new(&line.folder).taking(64 << 10);
            let mut session = slow.connect(at).await;
            let mut long = session.get(&format!("/bytes/{LONG}")).await;
            let mut counted = Counted::default();
            long.count(&mut counted, PIECE).await;
            downloads.push((session, long, counted));
            if number < 2 {
                line.upgrade();
            }
        }
        line.back_to(&processes[1]);
        kill(&processes[1], "KILL");
        // The newest serves, and the oldest has lost its way to the clients.
        line.server.process.line_with(&["the process that served is gone"]);
        line.server.process.line_with(&["this process serves again"]);
        line.process = processes.pop().unwrap();
        for _ in 0..8 {
            assert_serves(&line).await;
        }
        let (_newest, mut long, mut counted) = downloads.pop().unwrap();
        long.count_to_the_end(&mut counted, LONG).await;
    });
    line.end();
}

fn reload(line: &mut Line, setup: &Setup) {
    Server::write(setup, &line.folder);
    let mut command = std::process::Command::new(crate::installed::server());
    let command = command.args(["reload", "--socket"]).arg(line.folder.path("state/control.sock"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn a_former_process_without_a_listener_does_not_serve_again(backend: &str) {
    let one = setup(backend);
    let two = one.clone().listener("second", "127.0.0.1:0", "cubic");
    let mut line = Line::start(&one);
    let (first, at) = (line.process.clone(), line.server.address());
    run(async {
        let mut session = Client::new(&line.folder).taking(64 << 10).connect(at).await;
        let mut long = session.get(&format!("/bytes/{LONG}")).await;
        let mut counted = Counted::default();
        long.count(&mut counted, PIECE).await;
        Server::write(&two, &line.folder);
        line.upgrade();
        let (code, said) = line.ask(&["--back"]);
        assert!(code == Some(2) && said.contains("the listener `second`"), "{said}");
        reload(&mut line, &one);
        line.back_to(&first);
        assert_serves(&line).await;
        long.count_to_the_end(&mut counted, LONG).await;
    });
    line.end();
}

fn without_a_former_process_there_is_no_way_back(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let none = |line: &Line| {
        let (code, said) = line.ask(&["--back"]);
        assert!(code == Some(2) && said.contains("--program"), "{said}");
    };
    none(&line);
    line.upgrade();
    // It has nothing to drain.
    line.server.process.line_with(&["stopped"]);
    while line.ask(&["--back"]).1.contains("has ended") {}
    none(&line);
    run(assert_serves(&line));
    kill(&line.process, "TERM");
}
