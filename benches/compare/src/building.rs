//! Servers that are built from package registries.
//!
//! Versions are fixed by the lock files in `peers/` and in `kind.rs`, so that all who build them have the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::kind::{Kind, Recipe};

/// The servers' own sources.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// Places of the programs that the command line does not name.
#[derive(Debug)]
pub(crate) struct Builds {
    /// Folder of this program and of the server that was built with it.
    own: PathBuf,
    /// Folder of the others.
    peers: PathBuf,
}

impl Builds {
    /// Returns the builds that belong to the program in the folder `own`, such as `target/release`: the others are in `target/peers`.
    pub(crate) fn new(own: PathBuf) -> Self {
        let peers = own.parent().unwrap_or(&own).join("peers");
        Self { own, peers }
    }

    /// Returns where the program of a kind is once it is built; None for a kind that is not built here.
    pub(crate) fn program(&self, kind: Kind) -> Option<PathBuf> {
        let name = kind.name();
        if kind == Kind::Sluicegate {
            return Some(self.own.join(name));
        }
        Some(match kind.recipe()? {
            Recipe::Cargo => self.peers.join("cargo/release").join(name),
            Recipe::Go => self.peers.join(name),
            // Its name has the version, so that another one is installed.
            Recipe::GoInstall { version, .. } => {
                self.peers.join(format!("{name}-{version}")).join(name)
            }
        })
    }

    /// Builds a kind of server, where that is not done yet.
    ///
    /// # Errors
    ///
    /// The build fails, or its tool is missing.
    pub(crate) fn build(&self, kind: Kind) -> Result<()> {
        let name = kind.name();
        let Some(program) = self.program(kind) else {
            return Ok(());
        };
        let Some(recipe) = kind.recipe() else {
            ensure!(program.exists(), "there is no {}: `make build` makes it", program.display());
            return Ok(());
        };
        if matches!(recipe, Recipe::GoInstall { .. }) && program.exists() {
            return Ok(());
        }
        eprintln!("Building {name}");
        let mut command = self.command(name, recipe, &program);
        let tool = command.get_program().display().to_string();
        let status = command.status();
        let status =
            status.with_context(|| format!("{name} needs {tool}, which does not start"))?;
        ensure!(status.success(), "{name} cannot be built: {tool} says why");
        Ok(())
    }

    fn command(&self, name: &str, recipe: Recipe, program: &Path) -> Command {
        match recipe {
            Recipe::Cargo => {
                let mut command = Command::new("cargo");
                command
                    .args(["build", "--quiet", "--locked", "--release"])
                    .args(["--features", name, "--bin", name, "--target-dir"])
                    .arg(self.peers.join("cargo"))
                    .current_dir(SOURCES);
                command
            }
            Recipe::Go => {
                let mut command = Command::new("go");
                command
                    .args(["build", "-mod=readonly", "-o"])
                    .arg(program)
                    .current_dir(Path::new(SOURCES).join(name));
                command
            }
            Recipe::GoInstall { package, version } => {
                let mut command = Command::new("go");
                command
                    .arg("install")
                    .arg(format!("{package}@{version}"))
                    .env("GOBIN", program.parent().unwrap_or(&self.peers));
                command
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn each_recipe_has_its_sources_and_its_locked_versions() {
        let sources = Path::new(SOURCES);
        let manifest: toml::Table = read(&sources.join("Cargo.toml")).parse().unwrap();
        let lock = read(&sources.join("Cargo.lock"));
        for kind in Kind::ALL {
            let name = kind.name();
            match kind.recipe() {
                Some(Recipe::Cargo) => {
                    let program = format!("src/bin/{name}.rs");
                    assert!(sources.join(&program).is_file(), "{program}");
                    let programs = manifest["bin"].as_array().unwrap();
                    let program =
                        programs.iter().find(|program| program["name"].as_str() == Some(name));
                    let program = program.unwrap_or_else(|| panic!("no program {name}"));
                    let needed = program["required-features"].as_array().unwrap();
                    assert_eq!(needed[0].as_str(), Some(name));
                    for dependency in manifest["features"][name].as_array().unwrap() {
                        let package = dependency.as_str().unwrap().trim_start_matches("dep:");
                        let entry = format!("name = \"{package}\"\n");
                        assert!(lock.contains(&entry), "Cargo.lock has no {package}");
                    }
                }
                Some(Recipe::Go) => {
                    let module = read(&sources.join(name).join("go.mod"));
                    let sums = read(&sources.join(name).join("go.sum"));
                    let required = module.lines().filter(|line| line.contains(" v"));
                    for line in required.map(|line| line.trim_start_matches("require").trim()) {
                        let line = line.trim_end_matches(" // indirect");
                        assert!(sums.contains(&format!("{line} h1:")), "go.sum has no {line}");
                    }
                }
                Some(Recipe::GoInstall { version, .. }) => assert!(version.starts_with('v')),
                None => {}
            }
        }
    }

    #[test]
    fn the_manual_names_each_kind() {
        let manual = read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md").as_path());
        let manual = manual.split("\n## ").find(|part| part.starts_with("Compare\n"));
        for kind in Kind::ALL {
            let name = format!("`{}`", kind.name());
            assert!(manual.unwrap().contains(&name), "{name}");
        }
    }

    #[test]
    fn programs_of_different_kinds_and_versions_do_not_overwrite_each_other() {
        let builds = Builds::new("f/release".into());
        let programs: Vec<PathBuf> =
            Kind::ALL.into_iter().filter_map(|kind| builds.program(kind)).collect();
        for (number, one) in programs.iter().enumerate() {
            assert!(!programs[..number].contains(one), "{}", one.display());
        }
        assert!(programs.contains(&PathBuf::from("f/peers/cargo/release/quinn")));
    }
}
