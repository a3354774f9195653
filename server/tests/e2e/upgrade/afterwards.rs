//! Operations after an upgrade, and the ends of the processes.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use super::{Line, setup};
use crate::client::{Client, Counted, run};
use crate::on_auto;
use crate::server::{PAGE, Server, Setup};

on_auto!(
    listeners_are_removed_and_come_back_after_an_upgrade,
    the_old_process_serves_again_if_the_new_one_is_killed,
    an_upgrade_that_is_under_way_ends_with_the_server,
    a_server_that_spins_is_upgraded,
    the_number_of_workers_may_fall_and_rise_again,
);

const LONG: u64 = 8 << 20;

fn kill(process: &str) {
    let order = format!("kill -KILL {process}");
    assert!(Command::new("sh").args(["-c", &order]).status().unwrap().success());
}

/// Has the process that serves reload.
fn reload(line: &mut Line, setup: &Setup) {
    Server::write(setup, &line.folder);
    let mut command = Command::new(crate::installed::server());
    let command = command.args(["reload", "--socket"]).arg(line.folder.path("state/control.sock"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn listeners_are_removed_and_come_back_after_an_upgrade(backend: &str) {
    let one = setup(backend);
    let two = one.clone().listener("second", "127.0.0.1:0", "cubic");
    let mut line = Line::start(&two);
    let second = line.server.listener("second").0;
    line.upgrade();
    assert!(TcpStream::connect(second).is_ok());
    reload(&mut line, &one);
    // Its sockets close once its connections have ended.
    let mut refused = false;
    for _ in 0..1000 {
        refused = TcpStream::connect(second).is_err();
        if refused {
            break;
        }
        run(async { tokio::time::sleep(Duration::from_millis(10)).await });
    }
    assert!(refused, "somebody still listens at {second}");
    let again = one.listener("second", &second.to_string(), "cubic");
    reload(&mut line, &again);
    run(async {
        let mut session = Client::new(&line.folder).connect(second).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
    line.end();
}

fn the_old_process_serves_again_if_the_new_one_is_killed(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let at = line.server.address();
    run(async {
        let mut session = Client::new(&line.folder).taking(64 << 10).connect(at).await;
        let mut long = session.get(&format!("/bytes/{LONG}")).await;
        let mut counted = Counted::default();
        long.count(&mut counted, 1).await;
        let first = line.process.clone();
        line.upgrade();
        kill(&line.process);
        line.process = first;
        line.server.process.line_with(&["this process serves again"]);
        long.count(&mut counted, LONG / 2).await;
        let mut between = Client::new(&line.folder).connect(at).await;
        assert_eq!(between.get("/").await.text().await, PAGE);
        line.upgrade();
        let mut other = Client::new(&line.folder).connect(at).await;
        assert_eq!(other.get("/").await.text().await, PAGE);
        long.count_to_the_end(&mut counted, LONG).await;
    });
    line.end();
}

fn an_upgrade_that_is_under_way_ends_with_the_server(backend: &str) {
    if !super::faults::is_root() {
        return;
    }
    let mut line = Line::start(&setup(backend));
    let path = super::faults::program(&line, "exec sleep 600");
    let mut command = line.command(&["--program", &path]);
    let asking = std::thread::spawn(move || command.output().unwrap());
    line.server.process.line_with(&["the new process starts"]);
    line.server.process.last_words();
    let output = asking.join().unwrap();
    assert!(!output.status.success());
}

fn a_server_that_spins_is_upgraded(backend: &str) {
    let setup = setup(backend).replace("cores = [0, 0]\n", "cores = [0]\nspin = \"50us\"\n");
    let mut line = Line::start(&setup);
    line.upgrade();
    line.upgrade();
    line.end();
}

fn the_number_of_workers_may_fall_and_rise_again(backend: &str) {
    // More than a client's window.
    const SMALL: u64 = 1 << 20;
    let setup = setup(backend);
    let mut line = Line::start(&setup);
    let at = line.server.address();
    let mut downloads = Vec::new();
    run(async {
        for cores in ["cores = [0]", "cores = [0, 0] # again", "cores = [0]"] {
            // Some for each worker.
            for _ in 0..8 {
                let mut session = Client::new(&line.folder).taking(64 << 10).connect(at).await;
                let mut long = session.get(&format!("/bytes/{SMALL}")).await;
                let mut counted = Counted::default();
                long.count(&mut counted, 1).await;
                downloads.push((session, long, counted));
            }
            Server::write(&setup.clone().replace("cores = [0, 0]", cores), &line.folder);
            line.upgrade();
            for protocol in crate::tcp::PROTOCOLS {
                for _ in 0..4 {
                    let page = crate::tcp::curl(&line.server, &line.folder, &[protocol], "/");
                    assert!(page.is_none_or(|page| page == PAGE.as_bytes()));
                }
            }
        }
        for (_, long, counted) in &mut downloads {
            long.count_to_the_end(counted, SMALL).await;
        }
    });
    drop(downloads);
    line.end();
}
