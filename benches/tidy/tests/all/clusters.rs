//! Files for clusters, `deploy/kubernetes/` and `deploy/nomad/`: configuration, ports, times and versions in them agree. `make kubernetes`
//! renders the chart and checks what comes out; this needs none of its tools.

use std::path::Path;

use sluicegate_tidy::repository::read;
use toml::{Table, Value};

const PLAIN: [&str; 2] = ["deploy/kubernetes/deployment.yaml", "deploy/kubernetes/daemonset.yaml"];

fn text(name: &str) -> String {
    read(Path::new(name))
}

fn toml(name: &str, text: &str) -> Table {
    text.parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn chart() -> Table {
    let name = "deploy/kubernetes/chart/sluicegate.toml";
    toml(name, &text(name))
}

/// Returns the configuration in a plain manifest: the lines after its name, as far as they are indented.
fn embedded(manifest: &str) -> String {
    let (_, rest) = manifest.split_once("  sluicegate.toml: |\n").expect("a configuration");
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| line.get(4..).unwrap_or_default().to_owned() + "\n").collect()
}

/// Returns the configuration in the job of Nomad.
fn job() -> Table {
    let name = "deploy/nomad/sluicegate.nomad.hcl";
    let job = text(name);
    let (_, rest) = job.split_once("<<EOT\n").expect("a template");
    toml(name, rest.split_once("\nEOT\n").expect("its end").0)
}

/// Returns the ports for TLS, for HTTP without it, and for operators.
fn ports(config: &Table) -> [String; 3] {
    let listener = &config["listener"].as_array().expect("listeners")[0];
    let places = [&listener["address"], &listener["http_address"], &config["admin"]["address"]];
    places.map(|place| {
        let address = place.as_str().expect("an address");
        address.rsplit_once(':').expect("a port").1.to_owned()
    })
}

/// Returns the number that follows a key at its first place, on a line or in braces.
fn number(text: &str, key: &str) -> u64 {
    let (_, rest) = text.split_once(&format!("{key}: ")).unwrap_or_else(|| panic!("no {key}"));
    let digits = rest.trim_start_matches('"').split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap_or_default().parse().unwrap_or_else(|error| panic!("{key}: {error}"))
}

fn seconds(config: &Table) -> u64 {
    let limit = config["server"]["drain_timeout"].as_str().expect("a duration");
    limit.trim_end_matches('s').parse().expect("whole seconds")
}

#[test]
fn plain_manifests_have_the_configuration_of_the_chart() {
    let expected = text("deploy/kubernetes/chart/sluicegate.toml");
    for name in PLAIN {
        assert_eq!(embedded(&text(name)), expected, "{name}");
    }
}

#[test]
fn ports_of_pods_are_those_of_their_configuration() {
    let [https, http, admin] = ports(&chart());
    let values = text("deploy/kubernetes/chart/values.yaml");
    for (key, port) in [("  https", &https), ("  http", &http), ("  admin", &admin)] {
        assert_eq!(&number(&values, key).to_string(), port, "{key}");
    }
    for manifest in PLAIN.map(text) {
        let named = [("https", &https), ("http3", &https), ("http", &http), ("admin", &admin)];
        for (name, port) in named {
            let expected = format!("- name: {name}\n              containerPort: {port}\n");
            assert!(manifest.contains(&expected), "{name}");
        }
    }
    let config = chart();
    let listener = &config["listener"].as_array().expect("listeners")[0];
    let outside = listener["https_port"].as_integer().and_then(|port| u64::try_from(port).ok());
    assert_eq!(outside, Some(number(&values, "\n  port")));
    assert_eq!(ports(&job()), ports(&chart()));
    let nomad = text("deploy/nomad/sluicegate.nomad.hcl");
    for port in ports(&job()) {
        assert!(
            nomad.lines().any(|line| line.trim() == format!("to     = {port}")
                || line.trim() == format!("to = {port}")),
            "{port}"
        );
    }
}

#[test]
fn pods_and_tasks_get_the_time_that_a_drain_takes() {
    for manifest in PLAIN.map(text) {
        let drain = seconds(&chart());
        let (_, stop) = manifest.split_once("command: [sleep, \"").expect("preStop");
        let stop: u64 = stop.split('"').next().and_then(|s| s.parse().ok()).expect("seconds");
        let grace = number(&manifest, "terminationGracePeriodSeconds");
        assert!(grace >= stop + drain + 5, "{grace} {stop} {drain}");
        let (_, probe) = manifest.split_once("readinessProbe:").expect("a probe");
        // The first failure may come at once.
        let fails = (number(probe, "failureThreshold") - 1) * number(probe, "periodSeconds");
        assert!(fails > drain, "{fails} {drain}");
    }
    let nomad = text("deploy/nomad/sluicegate.nomad.hcl");
    let (_, kill) = nomad.split_once("kill_timeout = \"").expect("kill_timeout");
    let kill: u64 = kill.split('s').next().and_then(|s| s.parse().ok()).expect("seconds");
    assert!(kill > seconds(&job()), "{kill}");
}

#[test]
fn versions_and_users_are_those_of_the_image() {
    let workspace = toml("Cargo.toml", &text("Cargo.toml"));
    let version = workspace["workspace"]["package"]["version"].as_str().expect("a version");
    let chart = text("deploy/kubernetes/chart/Chart.yaml");
    assert!(chart.contains(&format!("\nappVersion: \"{version}\"\n")), "{chart}");
    let nomad = text("deploy/nomad/sluicegate.nomad.hcl");
    assert!(nomad.contains(&format!("/sluicegate:{version}\"")), "{version}");
    let image = text("deploy/Dockerfile");
    for manifest in PLAIN.map(text) {
        let user = number(&manifest, "runAsUser");
        assert!(image.contains(&format!("USER {user}:{user}\n")), "{user}");
        assert_eq!(number(&manifest, "fsGroup"), user);
        assert!(manifest.contains(&format!("image: sluicegate:{version}\n")), "{version}");
        assert!(nomad.contains(&format!("= {user}\n")), "{user}");
    }
}

/// The certificate and the key that the configuration names are those that the chart mounts.
#[test]
fn files_that_the_configuration_names_are_mounted() {
    let config = chart();
    let tls = &config["listener"].as_array().expect("listeners")[0]["tls"];
    let secrets = &config["server"]["secrets_file"];
    for manifest in PLAIN.map(text) {
        for file in [&tls["certificate"], &tls["key"], secrets].map(Value::as_str) {
            let file = file.expect("a path");
            assert!(manifest.contains(&format!("path: {file} }}")), "{file}");
        }
    }
}
