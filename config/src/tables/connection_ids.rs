//! Format of the server's connection IDs.

use std::path::PathBuf;

use data_encoding::HEXLOWER;

use crate::error::Error;
use crate::field::{Field, Record};
use crate::print;
use crate::schema::{Key, Kind, Refusal, Reload, choice, count};
use crate::section::Section;
use crate::value::Item;

/// Most tables: the one under which IDs are issued, and one that is being replaced.
pub(super) const MAX_TABLES: usize = 2;
/// Server ID in words.
pub(super) const SERVER_ID: &str = "1 to 15 bytes in hexadecimal, such as \"0x0123456789abcdef\"";
/// Longest server ID, bytes.
pub(super) const MAX_SERVER_ID: u64 = 15;

table! {
    /// Format of the server's connection IDs, for a load balancer that routes by them: then a connection stays with its server when the
    /// client's address changes, or when servers come and go. Without this table IDs name only the worker, and whatever stands in front
    /// must route by address. It holds for all listeners, because a worker tells the IDs of all of them apart by one length and one place.
    /// Two tables [[quic.connection_ids]] are for a change of the balancer's configuration: IDs are issued under the first and
    /// read under both. See docs/connection-ids.md. `sluicegate check` prints the layout.
    #[derive(Eq)]
    pub struct ConnectionIds = [quic.connection_ids], check: check {
        /// plain: no balancer reads the IDs. quic-lb: as in draft-ietf-quic-load-balancers, such as for the Network Load
        /// Balancer of AWS; without server_id the IDs say that they are not routable, and clients are asked not to migrate. katran: as
        /// Katran reads them.
        format: CidFormat { kind: choice(CidFormat::WORDS), required: "\"quic-lb\"", reload: Restart },
        /// ID of this server at the balancer, in hexadecimal, or a table that says where it stands. No two servers behind a balancer may have
        /// the same. With katran it is the number of the host: 2 bytes make an ID of version 1, 3 of version 2, 4 of version 3.
        server_id: Option<ServerId> {
            kind: Kind::WordOrTable { words: SERVER_ID, table: ServerIdPlace::TABLE, read: server_id },
            unset: "IDs that no balancer can route",
            examples: ["\"0x0123456789abcdef\""],
            reload: Restart
        },
        /// Number of the configuration at the balancer, with quic-lb.
        config: Option<u16> { kind: count(0, 6, ""), unset: "0", examples: ["1"], reload: Restart },
        /// Length of the nonce, with quic-lb, in bytes. With key_file, no nonce may ever repeat: server.state_dir remembers
        /// which were used, and without that folder a nonce needs 8 bytes. Each start takes a share of the values: of 4 bytes 16.8 million, which a
        /// flood of handshakes uses up in minutes, and 256 starts; of 8 bytes more than anybody uses. Without key_file nonces are random.
        nonce: Option<u16> { kind: count(4, 16, "bytes"), unset: "8", examples: ["7"], reload: Restart },
        /// File with the key by which server ID and nonce are encrypted, with quic-lb: 32 hexadecimal digits. The balancer has
        /// the same key. Without a key, everybody on the path can tell the server of an ID. Let nobody but root and the server's
        /// user, or a group of its own, read it; see server.open_secrets.
        key_file: Option<PathBuf> {
            kind: Kind::Path,
            unset: "server ID and nonce are not encrypted",
            examples: ["\"quic-lb.key\""],
            reload: Restart
        },
    }
}

words! {
    /// Format of connection IDs.
    pub enum CidFormat {
        /// Without a balancer that reads IDs.
        Plain = "plain",
        /// QUIC-LB.
        QuicLb = "quic-lb",
        /// Katran.
        Katran = "katran",
    }
}

table! {
    /// Place of the server ID, for IDs that the environment of the process knows.
    #[derive(Eq)]
    pub struct ServerIdPlace = [quic.connection_ids.server_id], check: check_place {
        /// Variable of the environment. The controller of AWS for Kubernetes sets AWS_LBC_QUIC_SERVER_ID, in base64.
        env: Option<String> {
            kind: Kind::Text { max: 256 },
            either("file"): "\"AWS_LBC_QUIC_SERVER_ID\"",
            reload: Restart
        },
        /// File. Space at its end does not count.
        file: Option<PathBuf> {
            kind: Kind::Path,
            unset: "the ID stands in `env`",
            examples: ["\"server-id\""],
            reload: Restart
        },
        /// Encoding of what stands there. Hexadecimal digits may follow 0x.
        encoding: ServerIdEncoding {
            kind: choice(ServerIdEncoding::WORDS),
            default: "\"hex\"",
            examples: ["\"base64\""],
            reload: Restart
        },
    }
}

words! {
    /// Encoding of a server ID.
    pub enum ServerIdEncoding {
        /// Hexadecimal digits.
        Hex = "hex",
        /// Base64 with padding.
        Base64 = "base64",
    }
}

/// ID of the server at a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerId {
    /// The ID.
    Bytes(Vec<u8>),
    /// The ID stands elsewhere.
    At(ServerIdPlace),
}

impl ConnectionIds {
    /// Returns whether no balancer can route the IDs, although they have the format of one.
    pub(super) fn are_unroutable(&self) -> bool {
        self.format == CidFormat::QuicLb && self.server_id.is_none()
    }
}

impl Field for ServerId {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        if item.value.is_table() {
            return <ServerIdPlace as Field>::read(item).map(Self::At);
        }
        let digits: String = item.word()?;
        let bytes = HEXLOWER.decode(digits.as_bytes()).map_err(|_| item.refused())?;
        Ok(Self::Bytes(bytes))
    }

    fn print(&self, _: &Key) -> Option<String> {
        match self {
            Self::Bytes(bytes) => Some(print::text(&format!("0x{}", HEXLOWER.encode(bytes)))),
            Self::At(_) => None,
        }
    }

    fn print_tables(&self, key: &Key, out: &mut String) {
        if let Self::At(place) = self {
            Field::print_tables(place, key, out);
        }
    }

    fn needs_restart(&self, new: &Self, reload: Reload, place: &str, changed: &mut Vec<String>) {
        if let (Self::At(old), Self::At(new)) = (self, new) {
            Record::needs_restart(old, new, place, changed);
        } else if reload == Reload::Restart && self != new {
            changed.push(place.to_owned());
        }
    }
}

/// Reads a server ID. Its canonical form is lower-case digits alone.
pub(super) fn server_id(word: &str) -> Result<String, Refusal> {
    let digits = word.strip_prefix("0x").unwrap_or(word).to_ascii_lowercase();
    let bytes = HEXLOWER.decode(digits.as_bytes()).map_err(|_| Refusal::default())?;
    if (1..=MAX_SERVER_ID).contains(&(bytes.len() as u64)) {
        Ok(digits)
    } else {
        Err(Refusal::default())
    }
}

fn check_place(place: &mut ServerIdPlace, section: &Section<'_>) -> Result<(), Error> {
    section.only_one_of(&["env", "file"], "place")?;
    match &place.env {
        Some(name) if name.is_empty() || name.contains(['=', '\0']) => {
            let found = "no name of a variable for `env`";
            Err(section.source.error(section.position("env"), found, "a name without `=`"))
        }
        _ => Ok(()),
    }
}

/// Refuses keys that the format has no use for. What the server ID must be, only the server sees.
fn check(ids: &mut ConnectionIds, section: &Section<'_>) -> Result<(), Error> {
    let refuse = |key: &str, found: String, expected: &str| {
        Err(section.source.error(section.position(key), found, expected))
    };
    let of_quic_lb = [
        ("config", ids.config.is_some()),
        ("nonce", ids.nonce.is_some()),
        ("key_file", ids.key_file.is_some()),
    ];
    let given = of_quic_lb.iter().find(|(_, given)| *given);
    match (ids.format, &ids.server_id, given) {
        (CidFormat::Plain, Some(_), _) => {
            let found = "`server_id` with `format = \"plain\"`".to_owned();
            refuse("server_id", found, "`format` of quic-lb or katran, or no `server_id`")
        }
        (CidFormat::Plain | CidFormat::Katran, _, Some((key, _))) => {
            let found = format!("`{key}` without `format = \"quic-lb\"`");
            refuse(key, found, &format!("`format = \"quic-lb\"`, or no `{key}`"))
        }
        (CidFormat::QuicLb, None, Some((key, _))) => {
            let found = format!("`{key}` without `server_id`");
            refuse(key, found, "a `server_id`, without which no balancer can route the IDs")
        }
        _ => Ok(()),
    }
}

/// Refuses two tables that a balancer could not tell apart.
pub(super) fn check_tables(tables: &[ConnectionIds], section: &Section<'_>) -> Result<(), Error> {
    let [first, second] = tables else {
        return Ok(());
    };
    let refuse = |found: &str, expected: &str| {
        Err(section.source.error(section.position("connection_ids"), found, expected))
    };
    let routable = |ids: &ConnectionIds| ids.format == CidFormat::QuicLb && ids.server_id.is_some();
    if !routable(first) || !routable(second) {
        let found = "two `connection_ids`, not both of quic-lb with a `server_id`";
        return refuse(found, "one table, or two of quic-lb with a `server_id` each");
    }
    if first.config.unwrap_or(0) == second.config.unwrap_or(0) {
        return refuse("the same `config` in both `connection_ids`", "different numbers");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    const LISTENER: &str =
        "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";

    fn read(tables: &str) -> Result<Config, String> {
        let registry = sluicegate_cc::Registry::builtin();
        let text = format!("{LISTENER}{tables}\n");
        Config::from_toml("edge.toml", &text, &registry).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_printed_reads_the_same() {
        for tables in [
            "[quic]\nconnection_ids = { format = \"plain\" }",
            "[quic]\nconnection_ids = { format = \"quic-lb\" }",
            "[quic]\nconnection_ids = { format = \"katran\", server_id = \"0x0102\" }",
            "[quic]\nconnection_ids = { format = \"quic-lb\", config = 0, server_id = { env = \"ID\", encoding = \"base64\" }, nonce = 7, key_file = \"k\" }",
            "[[quic.connection_ids]]\nformat = \"quic-lb\"\nserver_id = \"0xAB\"\nconfig = 1\n\
             [[quic.connection_ids]]\nformat = \"quic-lb\"\nserver_id = { file = \"id\" }\n",
        ] {
            let config = read(tables).unwrap();
            let printed = config.to_toml();
            let registry = sluicegate_cc::Registry::builtin();
            let again = Config::from_toml("again.toml", &printed, &registry).unwrap();
            assert_eq!(again.quic, config.quic, "{printed}");
        }
        let config =
            read("[quic]\nconnection_ids = { format = \"katran\", server_id = \"0xAbCd\" }");
        let bytes = Some(ServerId::Bytes(vec![0xab, 0xcd]));
        assert_eq!(config.unwrap().quic.connection_ids[0].server_id, bytes);
    }

    #[test]
    fn keys_without_effect_and_tables_that_clash_are_refused() {
        let both = |first: &str, second: &str| {
            let one =
                |keys: &str| format!("[[quic.connection_ids]]\nformat = \"quic-lb\"\n{keys}\n");
            format!("{}{}", one(first), one(second))
        };
        let one = |keys: &str| format!("[quic.connection_ids]\n{keys}\n");
        let cases = [
            (
                one("format = \"plain\"\nserver_id = \"01\""),
                "`server_id` with `format = \"plain\"`",
            ),
            (one("format = \"plain\"\nnonce = 4"), "`nonce` without `format = \"quic-lb\"`"),
            (
                one("format = \"katran\"\nserver_id = \"0102\"\nkey_file = \"k\""),
                "`key_file` without",
            ),
            (one("format = \"quic-lb\"\nconfig = 1"), "`config` without `server_id`"),
            (one("format = \"quic-lb\"\nserver_id = \"\""), "for `server_id`"),
            (one("format = \"quic-lb\"\nserver_id = \"123\""), "for `server_id`"),
            (
                one(&format!("format = \"quic-lb\"\nserver_id = \"{}\"", "01".repeat(16))),
                "for `server_id`",
            ),
            (
                one("format = \"quic-lb\"\nserver_id = { env = \"A\", file = \"b\" }"),
                "both `env` and `file`",
            ),
            (one("format = \"quic-lb\"\nserver_id = { encoding = \"hex\" }"), "no place in"),
            (one("format = \"quic-lb\"\nserver_id = { env = \"a=b\" }"), "no name of a variable"),
            (both("server_id = \"01\"", "server_id = \"02\""), "the same `config`"),
            (both("server_id = \"01\"", ""), "not both of quic-lb"),
        ];
        for (tables, found) in cases {
            let error = read(&tables).unwrap_err();
            assert!(error.contains(found), "{error}");
        }
    }

    #[test]
    fn clients_may_migrate_unless_their_ids_are_not_routable() {
        let allows = |keys: &str| read(&format!("[quic]\n{keys}")).unwrap().quic.allows_migration();
        assert!(allows(""));
        assert!(!allows("migration = false"));
        assert!(allows("connection_ids = { format = \"plain\" }"));
        assert!(!allows("connection_ids = { format = \"quic-lb\" }"));
        assert!(allows("connection_ids = { format = \"quic-lb\", server_id = \"01\" }"));
    }

    #[test]
    fn a_restart_is_needed_for_what_has_changed() {
        let one = "[quic]\nconnection_ids = { format = \"quic-lb\", server_id = { env = \"A\" } }";
        let config = read(one).unwrap();
        for (other, named) in [
            (one.replace("\"A\"", "\"B\""), "quic.connection_ids.server_id.env"),
            (one.replace("{ env = \"A\" }", "\"01\""), "quic.connection_ids.server_id"),
            ("[quic]".to_owned(), "quic.connection_ids"),
        ] {
            assert_eq!(config.needs_restart(&read(&other).unwrap()), [named]);
        }
    }
}
