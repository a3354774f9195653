//! The wall clock jumps, by ten years and back.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Counted, run};
use crate::on_every_backend;
use crate::server::{Folder, PAGE, Server, Setup};
use crate::skip;

on_every_backend!(a_jump_of_the_wall_clock_ends_no_connection_and_fails_no_handshake);

/// Stands in front of the C library's wall clock, and leaves the monotonic one alone.
const SHIM: &str = include_str!("wall_clock.c");
/// Seconds of ten years.
const FAR: i64 = 10 * 365 * 86_400;

/// Compiles the shim and returns its path.
fn compile(folder: &Folder) -> Option<String> {
    fs::write(folder.path("wall_clock.c"), SHIM).unwrap();
    let compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "wall_clock.so", "wall_clock.c"])
        .current_dir(folder.path(""))
        .output();
    match compiler {
        Ok(output) if output.status.success() => {
            Some(folder.path("wall_clock.so").to_str().unwrap().to_owned())
        }
        other => {
            skip("cc", &format!("{other:?}"));
            None
        }
    }
}

/// Returns the year of a response's `date`.
fn year(response: &crate::client::Response) -> i64 {
    let date = response.head.headers()["date"].to_str().unwrap();
    date.split(' ').nth(3).unwrap().parse().unwrap()
}

fn a_jump_of_the_wall_clock_ends_no_connection_and_fails_no_handshake(backend: &str) {
    const LENGTH: u64 = 20_000_000;
    let folder = Folder::new();
    let Some(shim) = compile(&folder) else { return };
    let offset = folder.path("offset");
    fs::write(&offset, 0_i64.to_ne_bytes()).unwrap();
    let jump = |seconds: i64| {
        let file = fs::OpenOptions::new().write(true).open(&offset).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    };
    let setup = Setup::new(backend)
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .with("[access_log]\nfile = \"access.log\"\nformat = \"json\"")
        .with("[quic]\nretry_above = 0")
        .listener("main", "127.0.0.1:0", "cubic");
    let told = [("LD_PRELOAD", &*shim), ("WALL_CLOCK_OFFSET", offset.to_str().unwrap())];
    let mut server = Server::start_told(&setup, &folder, &told);
    let admin = address(&mut server);
    let mut requests = 0;
    run(async {
        let client = Client::new(&folder);
        let mut old = client.connect(server.address()).await;
        let mut download = old.get(&format!("/bytes/{LENGTH}")).await;
        let mut counted = Counted::default();
        download.count(&mut counted, LENGTH / 10).await;
        let now = year(&download);
        let started = metrics(admin)["process_start_time_seconds"];
        for (seconds, years) in [(FAR, 10), (-FAR, -10), (FAR, 10), (0, 0)] {
            jump(seconds);
            let share = (requests + 2) * LENGTH / 10;
            download.count(&mut counted, share).await;
            // With the session ticket that the client was given before the jump, and with a Retry.
            let mut new = client.connect(server.address()).await;
            for session in [&mut old, &mut new] {
                let response = session.get("/").await;
                assert!((year(&response) - now - years).abs() <= 1, "{seconds}");
                assert_eq!(response.text().await, PAGE);
            }
            requests += 2;
            let found = metrics(admin);
            assert!(found["sluicegate_uptime_seconds"] < FAR as f64 / 10.0);
            let moved = found["process_start_time_seconds"] - started;
            assert!(moved.abs() < 1.0, "{moved}");
            assert_eq!(found["sluicegate_threads_silent"], 0.0);
        }
        download.count_to_the_end(&mut counted, LENGTH).await;
    });
    server.process.last_words();
    let log = fs::read_to_string(folder.path("access.log")).unwrap();
    let records: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len() as u64, requests + 1);
    for record in records {
        let limit = u64::try_from(FAR).unwrap() * 100_000;
        assert!(record["duration_us"].as_u64().unwrap() < limit, "{record}");
    }
}
