//! Our dependency list is quiche's: a feature or version that drifts would build another QUIC stack.

use std::path::PathBuf;
use std::process::Command;

/// Dependencies of the patches.
const OUR_OWN: [&str; 1] = ["sluicegate-cc"];

/// Returns the manifest of the published crate, where cargo keeps it.
fn published() -> toml::Table {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .output()
        .expect("cargo runs");
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("cargo prints JSON");
    let path = json["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .find(|p| p["name"] == "quiche")
        .and_then(|p| p["manifest_path"].as_str())
        .map(PathBuf::from)
        .expect("quiche is locked");
    std::fs::read_to_string(path).expect("readable").parse().expect("TOML")
}

fn ours() -> toml::Table {
    include_str!("../../Cargo.toml").parse().expect("TOML")
}

fn features(dependency: &toml::Value) -> Vec<String> {
    let mut list: Vec<String> = dependency
        .get("features")
        .and_then(toml::Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|f| f.as_str().map(str::to_owned))
        .collect();
    list.sort();
    list
}

#[test]
fn every_dependency_is_quiches_with_its_features() {
    let (published, ours) = (published(), ours());
    let ours = ours["dependencies"].as_table().expect("table");
    let published = published["dependencies"].as_table().expect("table");
    for (name, dependency) in published {
        let mine = ours.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(features(dependency), features(mine), "features of {name}");
    }
    for name in ours.keys() {
        assert!(
            published.contains_key(name) || OUR_OWN.contains(&name.as_str()),
            "{name} is not a dependency of quiche"
        );
    }
}
