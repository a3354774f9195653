//! The way back: the former process serves again.

use std::time::Duration;

use tokio::task::LocalSet;

use super::load::{Download, Load, ask_as_strangers, ask_on};
use super::status::with_draining;
use super::{Line, PIECE, assert_none_failed, kill, said, setup};
use crate::admin::{address, metrics};
use crate::client::{Client, run};
use crate::relay::Relay;
use crate::{on_auto, on_every_backend};

on_every_backend!(no_request_fails_on_the_way_there_and_back_twice);

on_auto!(
    clients_that_must_retry_keep_their_connections_on_the_way_back,
    either_process_may_be_killed_on_the_way_back,
    a_process_that_stops_does_not_take_the_service,
    a_way_back_that_breaks_off_leaves_no_more_time_to_drain,
    #[ignore = "long: it waits for a minute"]
    a_way_back_that_never_ends_is_broken_off,
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
    pub(super) async fn back_beside(&mut self, former: &str) {
        let result = self.ask_beside(&["--back"]).await;
        self.return_to(former, result);
    }

    fn return_to(&mut self, former: &str, (code, said): (Option<i32>, String)) {
        let expected =
            format!("process {former} serves again, and process {} drains", self.process);
        assert!(code == Some(0) && said.contains(&expected), "{said}");
        self.process = former.to_owned();
    }
}

/// Begins a download in each of three processes.
async fn three_that_drain(line: &mut Line) -> (Vec<Download>, Vec<String>) {
    let (mut downloads, mut processes) = (Vec::new(), Vec::new());
    for number in 0..3 {
        processes.push(line.process.clone());
        downloads.push(line.download().await);
        if number < 2 {
            line.upgrade();
        }
    }
    (downloads, processes)
}

/// A download goes on in each process, so all of them drain until the end.
fn no_request_fails_on_the_way_there_and_back_twice(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let (admin, at) = (address(&mut line.server), line.server.address());
    let first = line.process.clone();
    run(LocalSet::new().run_until(async {
        let mut load = Load::start(4, |progress| ask_on(Client::new(&line.folder), at, progress));
        let mut downloads = Vec::new();
        for step in 0..4 {
            downloads.push(line.download().await);
            if step % 2 == 0 {
                line.upgrade_beside().await;
            } else {
                line.back_beside(&first).await;
            }
            for long in &mut downloads {
                long.go_on(PIECE).await;
            }
            load.go_on(20).await;
            line.assert_serves().await;
            assert!(metrics(admin)["sluicegate_connections_accepted_total"] > 0.0);
        }
        for long in downloads {
            long.end().await;
        }
        load.end().await;
    }));
    let said = line.end();
    let again = said.iter().filter(|text| text.contains("upgrade: this process serves again"));
    assert_eq!(again.count(), 2);
    assert_none_failed(&said);
}

/// Connections of one process have IDs that the Retry of the other one has made.
fn clients_that_must_retry_keep_their_connections_on_the_way_back(backend: &str) {
    let mut line = Line::start(&setup(backend).with("[quic]\nretry_above = 0"));
    let (first, at) = (line.process.clone(), line.server.address());
    run(LocalSet::new().run_until(async {
        // A few requests each, so that the connection is there when the sockets change sides.
        let mut load =
            Load::start(8, |progress| ask_as_strangers(Client::new(&line.folder), at, progress, 4));
        // Without it, the first process might have drained before the way back.
        let long = line.download().await;
        for step in 0..6 {
            if step % 2 == 0 {
                line.upgrade_beside().await;
            } else {
                line.back_beside(&first).await;
            }
            load.go_on(20).await;
        }
        long.end().await;
        load.end().await;
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
            let long = line.download().await;
            line.upgrade();
            let relay = Relay::start_for(at, 1).await;
            let _halfway = Client::new(&line.folder).dial(relay.address).await;
            let command = line.command("upgrade", &["--back"]);
            let asking = std::thread::spawn(|| said(command));
            line.server.process.line_with(&["back to the former process"]);
            if kills_newer {
                kill(&line.process, "KILL");
                line.process = first;
                line.server.process.line_with(&["this process serves again"]);
                assert_ne!(asking.join().unwrap().0, Some(0));
                long.end().await;
            } else {
                kill(&first, "KILL");
                let (code, said) = asking.join().unwrap();
                assert!(code == Some(2) && said.contains("has ended"), "{said}");
            }
            line.assert_serves().await;
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
    run(async {
        let long = line.upgrade_and_stop_the_former().await;
        let (code, said) = line.ask(&["--back"]);
        assert!(code == Some(2) && said.contains("was told to stop"), "{said}");
        line.assert_serves().await;
        long.end().await;
    });
    line.end();
}

/// Handshakes stay open, so the newer process is still on its way back when SIGTERM comes.
fn a_way_back_that_breaks_off_leaves_no_more_time_to_drain(backend: &str) {
    let mut line = Line::start(&setup(backend).with("[limits]\nhandshake_timeout = \"300s\""));
    let (first, at) = (line.process.clone(), line.server.address());
    let seconds_left = |line: &Line| {
        let draining = &with_draining(line)["draining"][0];
        assert_eq!(draining["process"].to_string(), first);
        draining["seconds_left"].as_u64().unwrap()
    };
    run(async {
        let long = line.download().await;
        line.upgrade();
        let mut before = seconds_left(&line);
        // Of 300.
        while before > 295 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            before = seconds_left(&line);
        }
        let relay = Relay::start_for(at, 1).await;
        let _halfway = Client::new(&line.folder).dial(relay.address).await;
        let command = line.command("upgrade", &["--back"]);
        let asking = std::thread::spawn(|| said(command));
        line.server.process.line_with(&["back to the former process"]);
        kill(&line.process, "TERM");
        let (code, said) = asking.join().unwrap();
        assert!(code == Some(2) && said.contains("was told to stop"), "{said}");
        // What the former process has said before that is forgotten by then.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let after = seconds_left(&line);
        assert!(after < before, "{after} s, and {before} s before");
        long.end().await;
    });
    assert_eq!(line.server.process.wait().code(), Some(0));
}

/// The newer process is stopped while a handshake of it is open.
fn a_way_back_that_never_ends_is_broken_off(backend: &str) {
    let mut line = Line::start(&setup(backend).with("[limits]\nhandshake_timeout = \"1s\""));
    let at = line.server.address();
    run(async {
        let long = line.download().await;
        line.upgrade();
        let relay = Relay::start_for(at, 1).await;
        let _halfway = Client::new(&line.folder).dial(relay.address).await;
        let command = line.command("upgrade", &["--back"]);
        let asking = std::thread::spawn(|| said(command));
        line.server.process.line_with(&["back to the former process"]);
        kill(&line.process, "STOP");
        line.server.process.line_with(&["the way back is broken off"]);
        kill(&line.process, "CONT");
        let (code, said) = asking.join().unwrap();
        assert!(code == Some(2) && said.contains("takes too long"), "{said}");
        line.assert_serves().await;
        long.break_off().await;
    });
    kill(&line.process, "TERM");
}

fn the_most_recent_process_serves_again_and_then_the_one_before(backend: &str) {
    let mut line = Line::start(&setup(backend));
    run(async {
        let (mut downloads, processes) = three_that_drain(&mut line).await;
        line.back_to(&processes[1]);
        line.assert_serves().await;
        let (code, said) = line.ask(&["--back"]);
        let still = format!("process {} still drains", processes[2]);
        assert!(code == Some(2) && said.contains(&still), "{said}");
        for long in &mut downloads {
            long.go_on(PIECE).await;
        }
        downloads.pop().unwrap().end().await;
        line.server.process.line_with(&["a process that has drained has ended"]);
        line.back_to(&processes[0]);
        line.assert_serves().await;
        for long in downloads {
            long.end().await;
        }
    });
    line.end();
}

/// Two would read the same sockets.
fn one_alone_serves_again_of_several_that_drain(backend: &str) {
    let mut line = Line::start(&setup(backend));
    run(async {
        let (mut downloads, mut processes) = three_that_drain(&mut line).await;
        line.back_to(&processes[1]);
        kill(&processes[1], "KILL");
        // The newest serves, and the oldest has lost its way to the clients.
        line.server.process.line_with(&["the process that served is gone"]);
        line.server.process.line_with(&["this process serves again"]);
        line.process = processes.pop().unwrap();
        for _ in 0..8 {
            line.assert_serves().await;
        }
        downloads.pop().unwrap().end().await;
    });
    line.end();
}

fn a_former_process_without_a_listener_does_not_serve_again(backend: &str) {
    let one = setup(backend);
    let two = one.clone().listener("second", "127.0.0.1:0", "cubic");
    let mut line = Line::start(&one);
    let first = line.process.clone();
    run(async {
        let long = line.download().await;
        line.rewrite(&two);
        line.upgrade();
        let (code, said) = line.ask(&["--back"]);
        assert!(code == Some(2) && said.contains("the listener `second`"), "{said}");
        line.reload(&one);
        line.back_to(&first);
        line.assert_serves().await;
        long.end().await;
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
    run(line.assert_serves());
    kill(&line.process, "TERM");
}
