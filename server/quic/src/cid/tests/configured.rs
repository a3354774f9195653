//! Schemes as configurations want them.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;

use sluicegate_base::secrets::SecretsConfig;
use sluicegate_cc::Registry;
use sluicegate_config::Config;

use sluicegate_base::secrets::{Nonces, Secrets};
use sluicegate_cid::{UNROUTABLE, config_of};

use super::*;
use crate::cid::layout::Layout;
use crate::cid::quic_lb::{Pool, Routable};

const FILE: &str = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";

/// Reads tables in a folder with a key, where the environment has these variables.
pub(super) fn read(
    tables: &str,
    variables: &[(&str, &str)],
    has_state_dir: bool,
) -> Result<CidSchemes, CidError> {
    read_beside(tables, variables, has_state_dir, |_| ())
}

fn read_beside(
    tables: &str,
    variables: &[(&str, &str)],
    has_state_dir: bool,
    prepare: impl FnOnce(&std::path::Path),
) -> Result<CidSchemes, CidError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    let digits: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    write("key", &format!("{digits}\n"));
    write("edge.toml", &format!("{FILE}[[quic.connection_ids]]\n{tables}\n"));
    prepare(folder.path());
    let config = Config::load(&folder.path().join("edge.toml"), &Registry::builtin()).unwrap();
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let surroundings = CidSurroundings { variable: &variable, accept_open: false, has_state_dir };
    CidSchemes::read(&config.quic.connection_ids, surroundings)
}

#[test]
fn the_layout_is_told_in_words() {
    let words: Vec<String> =
        TABLES.iter().map(|table| configured(table).layout().unwrap().to_owned()).collect();
    assert_eq!(
        words,
        [
            "16 bytes: worker 1, generation 1, random 14",
            "16 bytes: version 1 and host ID 3, worker 1, generation 1, random 11",
            "16 bytes: version 2 and host ID 4, worker 1, generation 1, random 10",
            "16 bytes: version 3 and host ID 5, worker 1, generation 1, random 9",
            "16 bytes: octet (not routable) 1, worker 1, generation 1, random 13",
            "19 bytes: octet (configuration 0) 1, server ID 8, nonce 7, worker 1, generation 1, random 1",
            "16 bytes: octet (configuration 6) 1, server ID 1, nonce 4, worker 1, generation 1, random 8",
            "20 bytes: octet (configuration 6) 1, server ID 1, nonce 16, worker 1, generation 1",
            "19 bytes: octet (configuration 0) 1, encrypted server ID 8, nonce 8, worker 1, generation 1",
            "20 bytes: octet (configuration 0) 1, encrypted server ID 8, nonce 9, worker 1, generation 1",
            "20 bytes: octet (configuration 0) 1, encrypted server ID 9, nonce 8, worker 1, generation 1",
            "18 bytes: octet (configuration 3) 1, encrypted server ID 5, nonce 8, random 2, worker 1, generation 1; \
             or 18 bytes: octet (configuration 0) 1, server ID 7, nonce 8, worker 1, generation 1",
        ]
    );
    assert_eq!(CidSchemes::plain().layout(), None);
}

#[test]
fn a_server_id_stands_in_the_environment_or_in_a_file() {
    let mut expected =
        configured("format = \"quic-lb\"\nserver_id = \"0102030405060708\"\nnonce = 7").scheme();
    let variables = &[("HEX", "0x0102030405060708\n"), ("BASE64", "AQIDBAUGBwg=")];
    for place in
        ["{ env = \"HEX\" }", "{ env = \"BASE64\", encoding = \"base64\" }", "{ file = \"id\" }"]
    {
        let tables = format!("format = \"quic-lb\"\nserver_id = {place}\nnonce = 7");
        let schemes = read_beside(&tables, variables, true, |folder| {
            std::fs::write(folder.join("id"), "0102030405060708\n").unwrap();
        });
        let id = schemes.unwrap().scheme().generate(3, 4, &mut Entropy::new());
        let owner = Owner::Ours { worker: 3, generation: 4 };
        assert_eq!(expected.owner(id.as_bytes()), owner, "{place}");
    }
}

/// The first is what the controller's generator makes of the inputs of its own test (aws-load-balancer-controller,
/// pkg/inject/quic/quic_server_id_generator_test.go), the second one of a cluster, as another project's tests have it. The controller
/// registers a target under the hexadecimal digits (pkg/k8s/pod_info.go).
#[test]
fn ids_of_the_controller_of_aws_stand_where_its_balancer_looks() {
    let tables = "format = \"quic-lb\"\nnonce = 7\n\
                  server_id = { env = \"AWS_LBC_QUIC_SERVER_ID\", encoding = \"base64\" }";
    for (injected, registered) in
        [("AAAAAfQAMgU=", 0x0000_0001_f400_3205_u64), ("LWV1oW+gjqQ=", 0x2d65_75a1_6fa0_8ea4)]
    {
        let variables = &[("AWS_LBC_QUIC_SERVER_ID", injected)];
        let schemes = read(tables, variables, false).unwrap();
        let id = schemes.scheme().generate(0, 0, &mut Entropy::new());
        assert_eq!(config_of(id.as_bytes()), Some(0));
        assert_eq!(id.as_bytes()[1..9], registered.to_be_bytes(), "{injected}");
    }
}

#[test]
fn an_error_names_the_key_and_the_remedy() {
    let id = "server_id = \"01\"";
    for (tables, key, reason) in [
        ("format = \"katran\"".to_owned(), "server_id", "number of the host"),
        (format!("format = \"katran\"\n{id}"), "server_id", "2, 3 or 4 bytes"),
        (
            "format = \"quic-lb\"\nserver_id = { env = \"NONE\" }".to_owned(),
            "server_id",
            "no variable NONE; set it",
        ),
        (
            "format = \"quic-lb\"\nserver_id = { env = \"BAD\" }".to_owned(),
            "server_id",
            "BAD does not hold the bytes of an ID in hexadecimal",
        ),
        (
            "format = \"quic-lb\"\nserver_id = { env = \"EMPTY\", encoding = \"base64\" }"
                .to_owned(),
            "server_id",
            "EMPTY does not hold",
        ),
        (
            "format = \"quic-lb\"\nserver_id = { file = \"none\" }".to_owned(),
            "server_id",
            "cannot read",
        ),
        (format!("format = \"quic-lb\"\n{id}\nkey_file = \"none\""), "key_file", "cannot read"),
        (
            format!("format = \"quic-lb\"\n{id}\nkey_file = \"edge.toml\""),
            "key_file",
            "openssl rand -hex 16",
        ),
        (format!("format = \"quic-lb\"\n{id}\nkey_file = \"zeros\""), "key_file", "openssl"),
        (format!("format = \"quic-lb\"\n{id}\nkey_file = \"open\""), "key_file", "chmod 600"),
        (
            "format = \"quic-lb\"\nserver_id = \"0102030405060708090a\"".to_owned(),
            "nonce",
            "21 bytes (octet 1, server ID 10, nonce 8, worker 1, generation 1) do not fit into the 20",
        ),
        (
            format!("format = \"quic-lb\"\n{id}\nnonce = 7\nkey_file = \"key\""),
            "nonce",
            "`server.state_dir`",
        ),
    ] {
        let variables = &[("BAD", "12x"), ("EMPTY", "")];
        let read = read_beside(&tables, variables, false, |folder| {
            std::fs::write(folder.join("zeros"), "00".repeat(16)).unwrap();
            std::fs::write(folder.join("open"), "01".repeat(16)).unwrap();
            let open = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(folder.join("zeros"), std::fs::Permissions::from_mode(0o600))
                .unwrap();
            std::fs::set_permissions(folder.join("open"), open).unwrap();
        });
        let error = read.map(|_| ()).unwrap_err();
        assert_eq!((error.table, error.key), (0, key), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    let tables = format!(
        "format = \"quic-lb\"\n{id}\nkey_file = \"key\"\n[[quic.connection_ids]]\nformat = \"quic-lb\"\n{id}\nconfig = 1"
    );
    let error = read(&tables, &[], true).map(|_| ()).unwrap_err();
    assert_eq!((error.table, error.key), (1, "server_id"), "{error}");
    let second = tables.replace("config = 1", "config = 1\nnonce = 16\nkey_file = \"none\"");
    let error = read(&second, &[], true).map(|_| ()).unwrap_err();
    assert_eq!((error.table, error.key), (1, "key_file"), "{error}");
}

/// Returns IDs of another server, of another configuration, with another key, and with another length in the octet.
#[test]
fn ids_of_other_servers_and_configurations_are_somebody_else_s() {
    let entropy = &mut Entropy::new();
    let tables = |id: &str, config: u8| {
        format!(
            "format = \"quic-lb\"\nserver_id = \"{id}\"\nnonce = 8\nconfig = {config}\nkey_file = \"key\""
        )
    };
    let mut own = configured(&tables("0102030405060708", 1)).scheme();
    for other in [tables("0102030405060709", 1), tables("0102030405060708", 2)] {
        let mut other = configured(&other).scheme();
        for _ in 0..100 {
            let id = other.generate(0, 1, entropy);
            assert_eq!(own.owner(id.as_bytes()), Owner::Foreign);
            let id = own.generate(0, 1, entropy);
            assert_eq!(other.owner(id.as_bytes()), Owner::Foreign);
        }
    }
    let mut id = own.generate(0, 1, entropy);
    id.as_mut()[0] ^= 1;
    assert_eq!(own.owner(id.as_bytes()), Owner::Foreign);
    for host in ["0102", "0103"] {
        let tables = format!("format = \"katran\"\nserver_id = \"{host}\"");
        let id = configured(&tables).scheme().generate(0, 1, entropy);
        let owner =
            configured("format = \"katran\"\nserver_id = \"0102\"").scheme().owner(id.as_bytes());
        assert_eq!(owner == Owner::Foreign, host == "0103");
    }
}

#[test]
fn ids_of_both_configurations_are_read_while_one_replaces_the_other() {
    let entropy = &mut Entropy::new();
    let table = |id: &str, config: u8| {
        format!("format = \"quic-lb\"\nserver_id = \"{id}\"\nconfig = {config}\nkey_file = \"key\"")
    };
    let (old, new) = (table("0102", 0), table("0103", 1));
    let mut before = configured(&old).scheme();
    let mut during = configured(&format!("{new}\n[[quic.connection_ids]]\n{old}")).scheme();
    let mut after = configured(&new).scheme();
    let id = before.generate(1, 2, entropy);
    assert_ne!(during.owner(id.as_bytes()), Owner::Foreign);
    assert_eq!(after.owner(id.as_bytes()), Owner::Foreign);
    let id = during.generate(1, 2, entropy);
    assert_eq!(id.as_bytes()[0] >> 5, 1);
    assert_ne!(after.owner(id.as_bytes()), Owner::Foreign);
    assert_eq!((before.steering(), before.mark(1)), (during.steering(), during.mark(1)));
}

#[test]
fn workers_and_starts_never_repeat_a_nonce_and_end_with_ids_that_are_not_routable() {
    let folder = tempfile::tempdir().unwrap();
    let state =
        SecretsConfig { state_dir: Some(folder.path().join("state")), ..SecretsConfig::default() };
    let tables = "format = \"quic-lb\"\nserver_id = \"0102\"\nnonce = 4\nkey_file = \"key\"";
    let entropy = &mut Entropy::new();
    let mut seen = HashSet::new();
    for _ in 0..3 {
        let secrets = Secrets::load(&state).unwrap();
        let mut schemes = configured(tables);
        schemes.take_nonces(&secrets).unwrap();
        let mut workers = [(); 2].map(|()| schemes.scheme());
        for _ in 0..1000 {
            for worker in &mut workers {
                let id = worker.generate(0, 0, entropy);
                assert!(seen.insert(id.as_bytes()[..7].to_vec()));
            }
        }
    }
    let secrets = Secrets::load(&state).unwrap();
    let mut routable = || {
        let mut schemes = configured(tables);
        schemes.take_nonces(&secrets).unwrap();
        let id = schemes.scheme().generate(0, 0, entropy);
        config_of(id.as_bytes()) != Some(UNROUTABLE)
    };
    assert!((3..256).all(|_| routable()));
    assert!(!routable());
}

#[test]
fn a_refusal_takes_no_nonce_and_a_retry_does() {
    let schemes =
        configured("format = \"quic-lb\"\nserver_id = \"0102\"\nnonce = 8\nkey_file = \"key\"");
    let (mut worker, entropy) = (schemes.scheme(), &mut Entropy::new());
    let left = || schemes.nonces().unwrap().left();
    let mut make = |purpose| {
        let id = worker.generate_for(purpose, 5, 6, entropy);
        assert_eq!(worker.owner(id.as_bytes()), Owner::Ours { worker: 5, generation: 6 });
        (config_of(id.as_bytes()), left())
    };
    let all = left();
    assert_eq!(make(CidPurpose::Refusal), (Some(UNROUTABLE), all));
    let (config, after) = make(CidPurpose::Retry);
    assert!(config == Some(0) && after < all);
    assert_eq!(make(CidPurpose::Connection), (Some(0), after));
    let plain = configured("format = \"quic-lb\"\nserver_id = \"0102\"");
    assert!(plain.nonces().is_none());
    let id = plain.scheme().generate_for(CidPurpose::Refusal, 5, 6, entropy);
    assert_eq!(config_of(id.as_bytes()), Some(0));
}

#[test]
fn an_id_without_a_nonce_is_not_routable_and_still_the_server_s() {
    let pool = Pool {
        config: 2,
        server_id: vec![1, 2],
        nonce: 4,
        key: Some(KEY),
        nonces: std::sync::Arc::new(Nonces::used_up()),
    };
    let layout = Layout::behind(7, 4).unwrap();
    let mut scheme = Routable::new(layout, &[pool]);
    let id = scheme.generate(5, 6, &mut Entropy::new());
    assert_eq!(id.as_bytes()[0], 7 << 5 | 15);
    assert_eq!(scheme.owner(id.as_bytes()), Owner::Ours { worker: 5, generation: 6 });
    assert!(scheme.gives_spares());
    let mut unconfigured = configured("format = \"quic-lb\"").scheme();
    assert!(!unconfigured.gives_spares());
    let id = unconfigured.generate(5, 6, &mut Entropy::new());
    assert_eq!(id.as_bytes()[0], 7 << 5 | 15);
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let entropy = &mut Entropy::new();
    for mut scheme in schemes() {
        for len in 0..=40 {
            for _ in 0..200 {
                let mut bytes = vec![0; len];
                entropy.fill(&mut bytes);
                let owner = scheme.owner(&bytes);
                assert!(owner == Owner::Foreign || len == scheme.cid_len());
            }
        }
    }
}
