//! The file of the balancer: servers, and how connection IDs name them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use data_encoding::HEXLOWER;

use super::Log;
use super::connection_ids::{MAX_SERVER_ID, SERVER_ID, server_id};
use crate::error::Error;
use crate::field::Record;
use crate::once::Once;
use crate::schema::{Kind, count, duration, millis, name, seconds};
use crate::section::Section;
use crate::words::{canonical, socket_address};

/// Most bytes of server ID and nonce together (draft-ietf-quic-load-balancers §5.3).
const MAX_ROUTING: u16 = 19;

table! {
    /// Configuration of `sluicegate balance`: each value lies within its bounds, and each server ID has the length that a
    /// configuration of IDs says.
    pub struct BalancerConfig = [], check: check {
        /// Addresses that clients send to, over UDP.
        listen: Vec<SocketAddr> {
            kind: Kind::Words {
                words: "an address with a port, such as \"0.0.0.0:443\", \"[::]:443\" or \"localhost:4433\"",
                each: "",
                min: 1,
                max: 64,
                read: |word| canonical(socket_address(word)),
            },
            required: "[\"0.0.0.0:443\", \"[::]:443\"]",
            reload: Restart
        },
        /// Servers, at least one, with distinct names and addresses.
        servers as server: Vec<BalancerServer> {
            kind: Kind::Tables { table: BalancerServer::TABLE, max: 256 },
            default: "[]",
            reload: Live
        },
        /// Configurations of connection IDs, with distinct numbers. Without one, all datagrams are routed by address.
        connection_ids: Vec<BalancerIds> {
            kind: Kind::TableOrTables { table: BalancerIds::TABLE, max: 7 },
            unset: "datagrams are routed by address",
            reload: Live
        },
        /// Flows: a client's address and port, with a socket to a server.
        flows: Flows { kind: Kind::Table(Flows::TABLE), default: "{}", reload: Live },
        /// Checks of the servers that have `health`.
        health_check: TcpHealthCheck {
            kind: Kind::Table(TcpHealthCheck::TABLE),
            default: "{}",
            reload: Live
        },
        /// Messages of the process.
        log: Log { kind: Kind::Table(Log::TABLE), default: "{}", reload: Live },
    }
}

table! {
    /// A server behind the balancer.
    #[derive(Eq)]
    pub struct BalancerServer = [[server]] {
        /// Name, for messages.
        name: String { kind: name(), required: "\"a\"", reload: Live },
        /// Address that the server gets datagrams at.
        address: SocketAddr {
            kind: Kind::Word { words: ADDRESS, read: |word| canonical(endpoint(word)) },
            required: "\"192.0.2.1:443\"",
            reload: Live
        },
        /// Its server ID, in hexadecimal, as `quic.connection_ids.server_id` of the server. Several where it has another one in
        /// another configuration of IDs.
        server_ids as server_id: Vec<String> {
            kind: Kind::Words { words: SERVER_ID, each: "", min: 1, max: 7, read: server_id },
            unset: "no ID leads to the server",
            examples: ["\"0x0123456789abcdef\""],
            reload: Live
        },
        /// Address that is connected to over TCP, to see whether the server lives. A server with HTTP/1.1 and HTTP/2 has it beside QUIC.
        health: Option<SocketAddr> {
            kind: Kind::Word { words: ADDRESS, read: |word| canonical(endpoint(word)) },
            unset: "the server is not checked",
            examples: ["\"192.0.2.1:443\""],
            reload: Live
        },
        /// Whether the server gets no new clients, as before it is stopped for good. It keeps its flows, and gets what its IDs are on.
        drain: bool { kind: Kind::Switch, default: "false", reload: Live },
    }
}

table! {
    /// A configuration of connection IDs as in draft-ietf-quic-load-balancers. Several stand beside each other while one replaces the other.
    #[derive(Eq)]
    pub struct BalancerIds = [[connection_ids]], check: check_ids {
        /// Number of the configuration, as in `quic.connection_ids` of the servers.
        config: u16 { kind: count(0, 6, ""), default: "0", reload: Live },
        /// Length of the server IDs, in bytes.
        server_id_length: u16 { kind: count(1, MAX_SERVER_ID, "bytes"), required: "8", reload: Live },
        /// Length of the nonce, in bytes.
        nonce: u16 { kind: count(4, 18, "bytes"), default: "8", reload: Live },
        /// File with the key by which server ID and nonce are encrypted: 32 hexadecimal digits, as of the servers.
        key_file: Option<PathBuf> {
            kind: Kind::Path,
            unset: "server ID and nonce are not encrypted",
            examples: ["\"quic-lb.key\""],
            reload: Live
        },
    }
}

table! {
    /// Bounds of the flows. Each has a socket: a descriptor, and a port of this host.
    #[derive(Eq)]
    pub struct Flows = [flows] {
        /// Silence in both directions after which a flow ends. Make it longer than the idle timeout of the servers.
        idle_timeout: Duration { kind: duration(seconds(1), seconds(86_400)), default: "\"2m\"", reload: Live },
        /// Most flows. Beyond it, the flow that has been silent longest ends: of those whose client has not sent again after its server
        /// has, if these are more than an eighth of the table; of the others if not.
        max: u64 { kind: count(1, 60_000, "flows"), default: "10000", reload: Live },
        /// Flows that may begin in a second, and at once: so many to servers that an ID names, as of clients that change their address, and
        /// so many others; never more than an eighth of `max`. What would begin more is dropped, as in a flood from forged addresses; clients
        /// send it again.
        new_per_second: u64 { kind: count(1, 1_000_000, "flows"), default: "1000", reload: Live },
    }
}

table! {
    /// How servers are checked: by a connection over TCP, which is closed at once.
    #[derive(Eq)]
    pub struct TcpHealthCheck = [health_check] {
        /// Time between two checks of a server.
        interval: Duration { kind: duration(millis(50), seconds(3600)), default: "\"2s\"", reload: Live },
        /// Time in which the connection must be established.
        timeout: Duration { kind: duration(millis(10), seconds(300)), default: "\"2s\"", reload: Live },
        /// Checks in a row that must succeed for a server to get new flows again.
        rises: u64 { kind: count(1, 100, "checks"), default: "2", reload: Live },
        /// Checks in a row that must fail for a server to get no new flows. The first check after the start decides alone.
        falls: u64 { kind: count(1, 100, "checks"), default: "3", reload: Live },
    }
}

/// Address of a server in words.
const ADDRESS: &str = "an address with a port above 0, such as \"192.0.2.1:443\", \"[2001:db8::1]:443\" or \"localhost:4433\"";

fn endpoint(word: &str) -> Option<SocketAddr> {
    socket_address(word).filter(|address| address.port() != 0)
}

impl BalancerConfig {
    /// Returns the keys of `new` that differ from these and take effect only when the balancer starts.
    pub fn needs_restart(&self, new: &Self) -> Vec<String> {
        let mut changed = Vec::new();
        Record::needs_restart(self, new, "", &mut changed);
        changed
    }
}

impl BalancerServer {
    /// Returns its server IDs as bytes.
    pub fn id_bytes(&self) -> impl Iterator<Item = Vec<u8>> {
        // They were read as digits.
        self.server_ids.iter().filter_map(|digits| HEXLOWER.decode(digits.as_bytes()).ok())
    }
}

fn check_ids(ids: &mut BalancerIds, section: &Section<'_>) -> Result<(), Error> {
    let (server_id, nonce) = (ids.server_id_length, ids.nonce);
    if server_id + nonce <= MAX_ROUTING {
        return Ok(());
    }
    let found = format!("{server_id} bytes of server ID and {nonce} of nonce");
    let expected = format!("{MAX_ROUTING} bytes together at most");
    Err(section.source.error(section.position("server_id_length"), found, expected))
}

fn check(config: &mut BalancerConfig, top: &Section<'_>) -> Result<(), Error> {
    if config.servers.is_empty() {
        return Err(top.source.error(0, "no server in the file", "at least one [[server]]"));
    }
    let mut listen = Once::new(top, "each address once");
    for address in config.listen.iter().filter(|address| address.port() != 0) {
        let at = top.position("listen");
        listen.add(at, *address, || format!("address {address}"))?;
    }
    check_servers(config, top)?;
    let mut numbers = Once::new(top, "a number of its own for each");
    for (index, ids) in config.connection_ids.iter().enumerate() {
        let at = top.position_in("connection_ids", index, "config");
        numbers.add(at, ids.config, || format!("`config` {}", ids.config))?;
    }
    Ok(())
}

fn check_servers(config: &BalancerConfig, top: &Section<'_>) -> Result<(), Error> {
    let mut names = Once::new(top, "a name of its own");
    let mut addresses = Once::new(top, "an address of its own");
    let mut ids = Once::new(top, "an ID of its own for each server");
    for (index, server) in config.servers.iter().enumerate() {
        let at = |key| top.position_in("server", index, key);
        names.add(at("name"), server.name.as_str(), || format!("server \"{}\"", server.name))?;
        let address = server.address;
        addresses.add(at("address"), address, || format!("address {address}"))?;
        if config.listen.contains(&address) {
            let found = format!("address {address}, which `listen` has too");
            return Err(top.source.error(at("address"), found, "an address of a server"));
        }
        for id in &server.server_ids {
            ids.add(at("server_id"), id.as_str(), || format!("server ID 0x{id}"))?;
            let bytes = id.len() / 2;
            let fits = |one: &BalancerIds| usize::from(one.server_id_length) == bytes;
            if !config.connection_ids.iter().any(fits) {
                let found = format!("`server_id` of {bytes} bytes");
                let expected = lengths(&config.connection_ids);
                return Err(top.source.error(at("server_id"), found, expected));
            }
        }
    }
    Ok(())
}

/// Returns the lengths that server IDs may have, in words.
fn lengths(tables: &[BalancerIds]) -> String {
    let lengths: Vec<_> = tables.iter().map(|ids| ids.server_id_length.to_string()).collect();
    if lengths.is_empty() {
        "[[connection_ids]] with a `server_id_length`, or no `server_id`".to_owned()
    } else {
        format!("{} bytes, as [[connection_ids]] says", lengths.join(" or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTEN: &str = "listen = \"127.0.0.1:0\"\n";
    const SERVER: &str = "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:443\"\n";
    const IDS: &str = "[[connection_ids]]\nserver_id_length = 3\n";

    fn read(text: &str) -> Result<BalancerConfig, String> {
        BalancerConfig::from_toml("balance.toml", text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_short_file_has_the_defaults() {
        let config = read(&format!("{LISTEN}{SERVER}")).unwrap();
        assert_eq!(config.listen, ["127.0.0.1:0".parse().unwrap()]);
        let idle_timeout = Duration::from_secs(120);
        let flows = Flows { idle_timeout, max: 10_000, new_per_second: 1000 };
        assert_eq!(config.flows, flows);
        assert_eq!((config.health_check.rises, config.health_check.falls), (2, 3));
        let [server] = &config.servers[..] else { panic!("one server") };
        assert!(!server.drain && server.health.is_none() && server.server_ids.is_empty());
        assert!(config.connection_ids.is_empty());
    }

    #[test]
    fn ids_are_bytes_and_one_table_needs_no_list() {
        let text = format!(
            "{LISTEN}connection_ids = {{ server_id_length = 2, config = 6 }}\n{SERVER}server_id = [\"0xABcd\", \"0102\"]\n"
        );
        let config = read(&text).unwrap();
        let ids: Vec<_> = config.servers[0].id_bytes().collect();
        assert_eq!(ids, [[0xab, 0xcd], [1, 2]]);
        assert_eq!((config.connection_ids[0].config, config.connection_ids[0].nonce), (6, 8));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let other = "[[server]]\nname = \"b\"\naddress = \"192.0.2.2:443\"\n";
        let with_id = format!("{SERVER}server_id = \"010203\"\n");
        let twice = "[[connection_ids]]\nserver_id_length = 4\n";
        let cases = [
            (SERVER.to_owned(), "has no `listen`"),
            (LISTEN.to_owned(), "no server in the file; expected at least one [[server]]"),
            (format!("{LISTEN}{SERVER}{SERVER}"), "6:8: server \"a\" again, first on line 3"),
            (
                format!("{LISTEN}{SERVER}{}", other.replace(".2:443", ".1:443")),
                "7:11: address 192.0.2.1:443 again",
            ),
            (
                format!("{LISTEN}{with_id}{other}server_id = \"0x010203\"\n{IDS}"),
                "9:13: server ID 0x010203 again, first on line 5",
            ),
            (format!("{LISTEN}{with_id}"), "5:13: `server_id` of 3 bytes; expected [[conn"),
            (
                format!("{LISTEN}{with_id}[[connection_ids]]\nserver_id_length = 8\n"),
                "5:13: `server_id` of 3 bytes; expected 8 bytes, as",
            ),
            (format!("{LISTEN}{SERVER}{IDS}{twice}"), "`config` 0 again"),
            (
                format!("{LISTEN}{SERVER}[[connection_ids]]\nserver_id_length = 8\nnonce = 12\n"),
                "6:20: 8 bytes of server ID and 12 of nonce; expected 19 bytes together at most",
            ),
            (
                format!("{LISTEN}{}", SERVER.replace(":443", ":0")),
                "expected an address with a port above 0",
            ),
            (
                format!("listen = \"192.0.2.1:443\"\n{SERVER}"),
                "4:11: address 192.0.2.1:443, which `listen` has too; expected an address of a",
            ),
            (format!("{LISTEN}{SERVER}drian = true\n"), "(nearest: drain)"),
        ];
        for (text, expected) in cases {
            let error = read(&text).unwrap_err();
            assert!(error.contains(expected), "{error} has no {expected}");
        }
    }

    #[test]
    fn only_other_listening_addresses_need_a_restart() {
        let config = read(&format!("{LISTEN}{SERVER}")).unwrap();
        let other = "[[server]]\nname = \"b\"\naddress = \"192.0.2.2:443\"\ndrain = true\n";
        let new = read(&format!("{LISTEN}{other}{IDS}[flows]\nmax = 1\n")).unwrap();
        assert_eq!(config.needs_restart(&new), [""; 0]);
        let new = read(&format!("listen = \"127.0.0.1:1\"\n{SERVER}")).unwrap();
        assert_eq!(config.needs_restart(&new), ["listen"]);
    }
}
