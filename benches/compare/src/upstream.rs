//! nginx, as the upstream of proxied workloads.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::configuration;
use crate::kind::Resource;
use crate::network::{Host, UPSTREAM, UPSTREAM_H2C};
use crate::peer::UPSTREAM_NAME;
use crate::running::{Port, Program, Server};
use crate::site::Site;
use crate::workload::Workload;

/// Remark of the report if there is no upstream.
pub(crate) const MISSING: &str =
    "Proxied workloads are left out: there is no nginx as the upstream.";

/// Returns the program: the one that is named, or the one in PATH. None if there is neither.
pub(crate) fn find(named: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(named) = named {
        return Ok(Some(named.to_owned()));
    }
    match Command::new("nginx").arg("-v").output() {
        Ok(_) => Ok(Some("nginx".into())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("nginx"),
    }
}

/// Removes the workloads that need an upstream. Returns whether there were any.
///
/// # Errors
///
/// None is left.
pub(crate) fn do_without(workloads: &mut Vec<Workload>) -> Result<bool> {
    let before = workloads.len();
    workloads.retain(|workload| !is_proxied(workload));
    ensure!(
        !workloads.is_empty(),
        "proxied workloads need nginx as the upstream: install it, or name it by --upstream"
    );
    Ok(workloads.len() < before)
}

fn is_proxied(workload: &Workload) -> bool {
    matches!(workload.resource(), Resource::Proxied(_))
}

/// Starts it on a core, if one of the workloads needs it.
pub(crate) fn start(
    program: PathBuf,
    core: usize,
    site: &Site,
    workloads: &[Workload],
) -> Result<Option<Server>> {
    if !workloads.iter().any(is_proxied) {
        return Ok(None);
    }
    let servers = format!(
        "  server {{ listen {UPSTREAM}; listen unix:{}; listen {UPSTREAM_H2C} http2; root {}; }}\n",
        site.socket().display(),
        site.root().display()
    );
    let text = configuration::nginx(site, UPSTREAM_NAME, &servers);
    let file = site.folder.join("upstream.conf").display().to_string();
    let program = Program {
        name: UPSTREAM_NAME.to_owned(),
        program,
        arguments: vec!["-c".to_owned(), file],
        file: Some(("upstream.conf".to_owned(), text)),
    };
    let port = Port::Tcp(UPSTREAM);
    Server::start(&program, &Host::local(0), &site.folder, core, port).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_upstream_files_are_left() {
        let mut workloads = Workload::ALL.to_vec();
        assert!(do_without(&mut workloads).unwrap());
        assert!(workloads.iter().any(|workload| workload.name == "small"));
        assert!(!workloads.iter().any(is_proxied));
        assert!(!do_without(&mut workloads).unwrap());
        let mut proxied = Workload::ALL.to_vec();
        proxied.retain(is_proxied);
        let error = do_without(&mut proxied).unwrap_err();
        assert!(error.to_string().contains("--upstream"));
    }

    #[test]
    fn a_named_program_is_the_upstream() {
        let named = Path::new("/opt/nginx");
        assert_eq!(find(Some(named)).unwrap().as_deref(), Some(named));
    }
}
