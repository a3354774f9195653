//! Builds of the Makefile: they have DPDK only if the user asks for it, and those of `make test` share what they compile.

use std::process::Command;

use sluicegate_tidy::repository::root;

/// Returns the commands that `make` would run, of a target with these variables. None of them runs.
fn commands(target: &str, variables: &[&str]) -> String {
    let made = Command::new("make")
        .args(["--just-print", "BORING_BSSL_PATH=/nowhere", target])
        .args(variables)
        .env_remove("DPDK")
        .env_remove("MAKEFLAGS")
        .current_dir(root())
        .output()
        .expect("make is installed");
    String::from_utf8_lossy(&made.stdout).into_owned()
}

/// A build with DPDK starts on no host without its libraries.
#[test]
fn what_users_build_has_dpdk_only_if_they_ask_for_it() {
    for target in ["build", "run", "install", "deb", "compare"] {
        for (variables, expected) in
            [(&[][..], false), (&["DPDK=no"], false), (&["DPDK=yes"], true)]
        {
            let commands = commands(target, variables);
            assert!(commands.contains("--release -p sluicegate"), "{target}: {commands}");
            let builds = commands.contains("sluicegate/dpdk");
            assert_eq!(builds, expected, "{target} {variables:?}");
            let installs = commands.contains("libdpdk-dev");
            assert_eq!(installs, expected, "{target} {variables:?}");
        }
    }
}

#[test]
fn tests_try_dpdk_unless_they_are_told_not_to() {
    assert!(commands("test", &[]).contains("install -y -qq --no-install-recommends libdpdk-dev"));
    assert!(commands("test", &["DPDK=yes"]).contains("--workspace --features sluicegate/dpdk"));
    assert!(!commands("test", &["DPDK=no"]).contains("sluicegate/dpdk"));
}

/// cargo gives dependencies the features that dev-dependencies ask for only where it builds tests or examples. A build without them
/// compiles tokio, quiche and the server once more.
#[test]
fn builds_of_the_whole_workspace_have_the_features_of_tests() {
    let commands = commands("test", &["DPDK=no"]).replace("\\\n", "");
    let builds = commands.lines().filter(|line| line.contains("--workspace"));
    let builds: Vec<_> = builds.collect();
    assert!(builds.len() >= 4, "{commands}");
    for build in builds {
        let shares = [" test ", "--all-targets", "--examples"];
        let shares = shares.iter().any(|word| build.contains(word));
        assert!(shares, "{build}");
    }
}
