//! Pebble, an ACME server for tests, and its DNS server, by which every name is 127.0.0.1.

use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::park_timeout;
use std::time::Duration;

use sluicegate_dataplane::requirements::skip;

use crate::installed::installed;
use crate::ports::free;
use crate::server::{Folder, Process};

/// Time between two attempts to reach a program that starts.
const PAUSE: Duration = Duration::from_millis(20);

/// A running authority.
pub(super) struct Pebble {
    _process: Process,
    _dns: Process,
    management: SocketAddr,
}

/// Ports of an authority, and those of the server that it validates. Nobody has them yet.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    directory: u16,
    management: u16,
    dns: u16,
    /// Port at which the DNS server takes records.
    dns_management: u16,
    /// Port at which it validates HTTP-01.
    pub(super) http: u16,
    /// Port at which it validates TLS-ALPN-01.
    pub(super) tls: u16,
}

impl Ports {
    pub(super) fn free() -> Ports {
        let [directory, management, dns, dns_management, http, tls] =
            [(); 6].map(|()| free().local_addr().unwrap().port());
        Ports { directory, management, dns, dns_management, http, tls }
    }

    /// Writes a program that sets records by the DNS server's own interface, and returns its path. It notes its calls in the file `calls`.
    pub(super) fn dns_hook(&self, folder: &Folder) -> PathBuf {
        let (path, calls) = (folder.path("dns-hook"), folder.path("calls"));
        let port = self.dns_management;
        let script = format!(
            r#"#!/bin/sh
echo "$1 $2" >>{calls:?}
case $1 in
    present) path=set-txt record=$(printf '"host": "%s", "value": "%s"' "$2" "$3") ;;
    cleanup) path=clear-txt record=$(printf '"host": "%s"' "$2") ;;
esac
exec curl --silent --show-error --fail --data "{{ $record }}" http://127.0.0.1:{port}/$path
"#
        );
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        path
    }

    /// Returns the table [acme] of a server that trusts the authority, with further keys.
    pub(super) fn table(&self, folder: &Folder, keys: &str) -> String {
        let directory = self.directory;
        let ca = folder.path("cert.pem");
        format!(
            "[acme]\nagree = true\ndirectory = \"https://127.0.0.1:{directory}/dir\"\nca = {ca:?}\n{keys}\n"
        )
    }
}

impl Pebble {
    /// Starts an authority whose certificates are valid for that many seconds, with further settings. `None`, reported as missing, if
    /// this host does not have it.
    pub(super) fn start(
        folder: &Folder,
        ports: Ports,
        validity: u64,
        more: &str,
    ) -> Option<Pebble> {
        let Some(programs) = programs() else {
            skip("pebble", &"`make pebble` installs it, if there is Go");
            return None;
        };
        let Ports { directory, management, dns, dns_management, http, tls } = ports;
        let (certificate, key) = (folder.path("cert.pem"), folder.path("key.pem"));
        let config = format!(
            r#"{{ "pebble": {{
                "listenAddress": "127.0.0.1:{directory}", "managementListenAddress": "127.0.0.1:{management}",
                "certificate": {certificate:?}, "privateKey": {key:?}, "httpPort": {http}, "tlsPort": {tls},
                "retryAfter": {{ "authz": 1, "order": 1 }}, "keyAlgorithm": "ecdsa", {more}
                "profiles": {{ "default": {{ "description": "for tests", "validityPeriod": {validity} }} }}
            }} }}"#
        );
        let file = folder.path("pebble.json");
        std::fs::write(&file, config).unwrap();
        let [dns, dns_management] = [dns, dns_management].map(|port| format!("127.0.0.1:{port}"));
        let start = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(programs.join(program));
            // It would wait between validations.
            command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0");
            command.args(arguments).stdin(Stdio::null());
            Process::spawn(command, file.parent().unwrap())
        };
        let names = start(
            "pebble-challtestsrv",
            &[
                "-dnsserver",
                &dns,
                "-defaultIPv4",
                "127.0.0.1",
                "-defaultIPv6",
                "",
                "-http01",
                "",
                "-https01",
                "",
                "-tlsalpn01",
                "",
                "-doh",
                "",
                "-management",
                &dns_management,
            ],
        );
        let arguments = ["-config", file.to_str().unwrap(), "-dnsserver", &dns];
        let process = start("pebble", &arguments);
        let pebble = Pebble {
            _process: process,
            _dns: names,
            management: (Ipv4Addr::LOCALHOST, management).into(),
        };
        for port in [ports.directory, ports.management] {
            wait_for((Ipv4Addr::LOCALHOST, port).into());
        }
        wait_for_dns((Ipv4Addr::LOCALHOST, ports.dns).into());
        Some(pebble)
    }

    /// Returns the root certificate of what it issues, PEM.
    pub(super) fn root(&self, folder: &Folder) -> String {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--cacert"])
            .arg(folder.path("cert.pem"))
            .arg(format!("https://{}/roots/0", self.management))
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Waits for who listens at an address of TCP.
fn wait_for(address: SocketAddr) {
    wait_until(address, || TcpStream::connect(address).is_ok());
}

/// Waits for a DNS server to answer over UDP, by which the authority asks it. It may answer over TCP earlier.
fn wait_for_dns(address: SocketAddr) {
    // The IPv4 addresses of "a." (RFC 1035 §4.1).
    let query = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(PAUSE)).unwrap();
    wait_until(address, || socket.send(query).and_then(|_| socket.recv(&mut [0; 512])).is_ok());
}

fn wait_until(address: SocketAddr, mut is_there: impl FnMut() -> bool) {
    for _ in 0..500 {
        if is_there() {
            return;
        }
        park_timeout(PAUSE);
    }
    panic!("nobody is at {address}");
}

/// Returns the folder in which `make` has installed the programs.
fn programs() -> Option<PathBuf> {
    let program = installed("pebble/pebble")?;
    program.parent().map(Path::to_owned)
}
