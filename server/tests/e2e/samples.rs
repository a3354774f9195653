//! Configurations that are printed or shipped, given to `sluicegate check`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::installed;
use crate::server::{Folder, Process};

fn read(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(name)).unwrap()
}

/// Returns a folder with every file that a sample names.
fn folder() -> Folder {
    let folder = Folder::new();
    for (chain, key) in [
        ("tls/certificate.pem", "tls/key.pem"),
        ("tls/example.com/fullchain.pem", "tls/example.com/privkey.pem"),
        ("tls/static.example.com/fullchain.pem", "tls/static.example.com/privkey.pem"),
        ("tls/sluicegate-tls/tls.crt", "tls/sluicegate-tls/tls.key"),
        ("secrets/certificate.pem", "secrets/key.pem"),
    ] {
        for (from, to) in [("cert.pem", chain), ("key.pem", key)] {
            let to = folder.path(to);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(folder.path(from), to).unwrap();
        }
    }
    std::fs::create_dir(folder.path("static")).unwrap();
    let secrets = folder.path("secrets/secrets.txt");
    std::fs::write(&secrets, "5a3c".repeat(16)).unwrap();
    std::fs::set_permissions(&secrets, std::fs::Permissions::from_mode(0o600)).unwrap();
    folder
}

fn accepted(name: &str, text: &str, folder: &Folder) {
    // systemd makes this folder.
    let text = text.replace("/var/log/sluicegate", ".");
    std::fs::write(folder.path("sample.toml"), &text).unwrap();
    let mut process = Process::start(&["check", "sample.toml"], &folder.path(""));
    let code = process.wait().code();
    assert_eq!(code, Some(0), "{name}: {:#?}\n{text}", process.said);
}

#[test]
fn samples_can_be_served() {
    let folder = folder();
    for name in [
        "deploy/edge.toml",
        "deploy/compose.toml",
        "deploy/container.toml",
        "deploy/deb/sluicegate.toml",
        "deploy/kubernetes/chart/sluicegate.toml",
    ] {
        let text = read(name).replace("/srv/www/static", "static");
        accepted(name, &text, &folder);
    }
    let name = "deploy/nomad/sluicegate.nomad.hcl";
    let job = read(name);
    let (_, template) = job.split_once("<<EOT\n").unwrap();
    let (text, _) = template.split_once("\nEOT\n").unwrap();
    // Nomad mounts this folder.
    accepted(name, &text.replace("\"/secrets/", "\"secrets/"), &folder);
}

#[test]
fn whole_configurations_in_the_handbooks_can_be_served() {
    let folder = folder();
    for name in ["README.md", "deploy/README.md", "docs/congestion-control.md", "docs/tls.md"] {
        let text = read(name);
        let blocks = text.split("```toml\n").skip(1);
        let blocks = blocks.map(|block| block.split("```").next().unwrap());
        // Others show a part.
        let whole: Vec<_> = blocks.filter(|b| b.contains("[[listener]]\n")).collect();
        assert!(!whole.is_empty(), "{name}");
        for block in whole {
            accepted(name, block, &folder);
        }
    }
}

#[test]
fn schema_is_printed_without_a_file() {
    let check = |arguments: &[&str]| installed::output("check", arguments);
    let output = check(&["--schema"]);
    assert!(output.status.success(), "{output:?}");
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["properties"]["quic"]["$ref"], "#/$defs/quic");
    assert_eq!(schema["additionalProperties"], false);
    for wrong in [&[][..], &["--schema", "edge.toml"]] {
        let output = check(wrong);
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
}
