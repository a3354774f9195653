//! Operations after an upgrade, and the ends of the processes.

use std::net::TcpStream;
use std::time::Duration;

use super::load::Download;
use super::{Line, PIECE, kill, setup};
use crate::client::{Client, run};
use crate::on_auto;
use crate::server::PAGE;

on_auto!(
    listeners_are_removed_and_come_back_after_an_upgrade,
    the_old_process_serves_again_if_the_new_one_is_killed,
    an_upgrade_that_is_under_way_ends_with_the_server,
    a_server_that_spins_is_upgraded,
    the_number_of_workers_may_fall_and_rise_again,
);

fn listeners_are_removed_and_come_back_after_an_upgrade(backend: &str) {
    let one = setup(backend);
    let two = one.clone().listener("second", "127.0.0.1:0", "cubic");
    let mut line = Line::start(&two);
    let second = line.server.listener("second").0;
    line.upgrade();
    assert!(TcpStream::connect(second).is_ok());
    line.reload(&one);
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
    line.reload(&again);
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
        let mut long = line.download().await;
        let first = line.process.clone();
        line.upgrade();
        kill(&line.process, "KILL");
        line.process = first;
        line.server.process.line_with(&["this process serves again"]);
        long.go_on(4 * PIECE).await;
        let mut between = Client::new(&line.folder).connect(at).await;
        assert_eq!(between.get("/").await.text().await, PAGE);
        line.upgrade();
        let mut other = Client::new(&line.folder).connect(at).await;
        assert_eq!(other.get("/").await.text().await, PAGE);
        long.end().await;
    });
    line.end();
}

fn an_upgrade_that_is_under_way_ends_with_the_server(backend: &str) {
    if !super::faults::is_root() {
        return;
    }
    let mut line = Line::start(&setup(backend));
    let path = super::faults::program(&line, "exec sleep 600");
    let mut command = line.command("upgrade", &["--program", &path]);
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
    run(async {
        let mut downloads = Vec::new();
        for cores in ["cores = [0]", "cores = [0, 0] # again", "cores = [0]"] {
            // Some for each worker.
            for _ in 0..8 {
                let mut long = Download::begin(Client::new(&line.folder), at, SMALL).await;
                long.go_on(1).await;
                downloads.push(long);
            }
            line.rewrite(&setup.clone().replace("cores = [0, 0]", cores));
            line.upgrade();
            for _ in 0..4 {
                line.assert_serves().await;
            }
        }
        for long in downloads {
            long.end().await;
        }
    });
    line.end();
}
