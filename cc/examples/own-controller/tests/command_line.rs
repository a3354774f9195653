//! The built server knows the algorithm, takes it in a configuration, and sends with it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const BODY: usize = 1_000_000;

const CONFIG: &str = include_str!("../lab.toml");

fn command(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own-controller"));
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1");
    command
}

fn output(arguments: &[&str], folder: &Path) -> Output {
    command(arguments, folder).output().expect("it can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server that is killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn listing_has_the_algorithm_beside_the_built_in_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let listing = text(&output(&["cc"], folder.path()).stdout);
    for name in ["cubic", "reno", "constant"] {
        let mut lines = listing.lines();
        let listed = lines.any(|line| line.split(' ').next() == Some(name));
        assert!(listed, "{name} in:\n{listing}");
    }
    assert!(listing.contains("window"), "{listing}");
}

#[test]
fn configuration_takes_the_name_and_the_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |config: &str| {
        std::fs::write(folder.path().join("lab.toml"), config).expect("written");
        output(&["check", "--print", "lab.toml"], folder.path())
    };
    let good = check(CONFIG);
    assert!(good.status.success(), "{}", text(&good.stderr));
    assert!(text(&good.stdout).contains("constant"), "{}", text(&good.stdout));
    let bad = check(&CONFIG.replace("window = 64", "window = 1"));
    assert!(!bad.status.success());
    assert!(text(&bad.stderr).contains("window"), "{}", text(&bad.stderr));
}

#[test]
fn download_arrives_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let free_port = CONFIG.replace("127.0.0.1:4433", "127.0.0.1:0");
    std::fs::write(folder.path().join("lab.toml"), free_port).expect("written");
    let child = command(&["run", "-c", "lab.toml"], folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut server = Server(child);
    let said = BufReader::new(server.0.stderr.take().expect("piped"));
    let mut lines = said.lines().map_while(Result::ok);
    let address = lines
        .find_map(|line| {
            let (_, rest) = line.split_once("address=")?;
            rest.split_whitespace().next().map(str::to_owned)
        })
        .expect("it says where it listens");
    let url = format!("https://{address}/bytes/{BODY}");
    let fetched = output(&["get", "-k", "-f", &url], folder.path());
    assert!(fetched.status.success(), "{}", text(&fetched.stderr));
    assert_eq!(fetched.stdout.len(), BODY);
}
