//! The servers that are compared.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::backend::{Backend, Driver};
use crate::building::Builds;
use crate::generator::Protocol;
use crate::kind::{Kind, Resource};
use crate::site::Key;
use crate::workload::Workload;

/// Name of the upstream, and end of the names of twins.
pub(crate) const UPSTREAM_NAME: &str = "upstream";
const TWIN_ENDING: &str = "-twin";

/// A server to compare.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Name in tables.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) program: PathBuf,
    /// Whether the program is the one that is built here.
    pub(crate) is_built: bool,
    /// Backend, of the product only. None is its own choice.
    pub(crate) backend: Option<Backend>,
    /// Further keys of its group, of the product only.
    pub(crate) keys: Vec<String>,
    /// Kind of its certificate's key.
    pub(crate) key: Key,
}

impl Peer {
    /// Reads `[NAME:]KIND[=PROGRAM]`; the name is the kind unless given, and the program the one that is built here.
    pub(crate) fn parse(text: &str, builds: &Builds) -> Result<Self> {
        let (left, program) = match text.split_once('=') {
            Some((left, program)) => (left, Some(program)),
            None => (text, None),
        };
        let (name, kind) = left.split_once(':').unwrap_or((left, left));
        let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        ensure!(
            name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(fine),
            "`{text}`: a name begins with a letter or a digit and has letters, digits, `.`, `_` and `-`"
        );
        ensure!(
            name != UPSTREAM_NAME && !name.ends_with(TWIN_ENDING),
            "`{text}`: `{UPSTREAM_NAME}` and names that end with `{TWIN_ENDING}` are the program's own"
        );
        let kind = Kind::parse(kind).with_context(|| format!("`{text}`"))?;
        let is_built = program.is_none();
        let program = match program.map(PathBuf::from) {
            None => builds.program(kind).with_context(|| {
                format!(
                    "`{text}`: this kind is not built here: name its program, as {text}=PROGRAM"
                )
            })?,
            // A name without a folder is looked up in PATH.
            Some(program) if program.components().count() == 1 => program,
            Some(program) => program.canonicalize().with_context(|| format!("`{text}`"))?,
        };
        let name = name.to_owned();
        let (backend, keys, key) = (None, Vec::new(), Key::Ecdsa);
        Ok(Self { name, kind, program, is_built, backend, keys, key })
    }

    /// Returns the server with another name, for a second process of it, with a key of this kind.
    pub(crate) fn twin(&self, key: Key) -> Self {
        Self { name: format!("{}{TWIN_ENDING}", self.name), key, ..self.clone() }
    }

    /// Returns whether it can serve a workload.
    pub(crate) fn serves(&self, workload: &Workload) -> bool {
        let (resource, protocol) = (workload.resource(), workload.protocol());
        // Without an address the kernel reaches no upstream, and has no TCP.
        let needs_kernel = matches!(resource, Resource::Proxied(_)) || protocol != Protocol::Http3;
        let is_apart = self.backend.is_some_and(|backend| backend.driver == Driver::AfPacket);
        self.kind.serves(resource) && self.kind.speaks(protocol) && !(is_apart && needs_kernel)
    }
}

/// Returns a server for each of these backends and each program of the product, by backend; other servers follow.
pub(crate) fn on_backends(peers: Vec<Peer>, backends: &[Backend]) -> Vec<Peer> {
    let (products, others): (Vec<Peer>, Vec<Peer>) =
        peers.into_iter().partition(|peer| peer.kind == Kind::Sluicegate);
    let named = |product: &Peer, backend: &Backend| match products.len() {
        1 => backend.name.to_owned(),
        _ => format!("{}-{}", product.name, backend.name),
    };
    let on = |backend: &Backend| -> Vec<Peer> {
        let on = |product: &Peer| Peer {
            name: named(product, backend),
            backend: Some(*backend),
            ..product.clone()
        };
        products.iter().map(on).collect()
    };
    backends.iter().flat_map(on).chain(others).collect()
}

/// Returns the server that each is compared with: the first, or the first with the same backend if several have one.
pub(crate) fn references<'a>(peers: impl Iterator<Item = &'a Peer>) -> Vec<usize> {
    let backends: Vec<_> = peers.map(|peer| peer.backend.map(|backend| backend.name)).collect();
    let first =
        |own: &Option<_>| backends.iter().position(|other| other == own).unwrap_or_default();
    let shares = |(number, own): (usize, &Option<_>)| own.is_some() && first(own) != number;
    let several = backends.iter().enumerate().any(shares);
    backends.iter().map(|own| if several && own.is_some() { first(own) } else { 0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Peer> {
        Peer::parse(text, &Builds::new("target/release".into()))
    }

    #[test]
    fn a_server_has_a_kind_and_may_have_a_name() {
        let peer = parse("old:sluicegate=sluicegate-1").unwrap();
        assert_eq!((peer.name.as_str(), peer.kind), ("old", Kind::Sluicegate));
        assert_eq!(parse("nginx=nginx").unwrap().name, "nginx");
        for wrong in [
            "nginx",
            "apache=httpd",
            "nginx=/no/such/nginx",
            "a/b:nginx=nginx",
            "upstream:nginx=nginx",
            "x-twin:nginx=nginx",
        ] {
            let error = format!("{:#}", parse(wrong).unwrap_err());
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_server_without_a_program_is_built_here() {
        let peer = parse("new:quinn").unwrap();
        assert!(peer.is_built && peer.program.ends_with("quinn"));
        assert!(!parse("quinn=quinn").unwrap().is_built);
        let own = parse("sluicegate").unwrap();
        assert_eq!(own.program, PathBuf::from("target/release/sluicegate"));
    }

    #[test]
    fn programs_of_the_product_are_compared_on_each_backend() {
        let backends = [Backend::ALL[0], Backend::ALL[3]];
        let names = |peers: &[Peer]| peers.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
        let peers =
            ["base:sluicegate", "nginx=nginx", "head:sluicegate"].map(|t| parse(t).unwrap());
        let peers = on_backends(peers.into(), &backends);
        let expected = ["base-mio", "head-mio", "base-af_packet", "head-af_packet", "nginx"]
            .map(str::to_owned);
        assert_eq!(names(&peers), expected);
        assert_eq!(references(peers.iter()), [0, 0, 2, 2, 0]);
        for name in ["proxied-small", "h2-small"] {
            let workload = Workload::named(name);
            assert!(peers[0].serves(&workload) && !peers[2].serves(&workload), "{name}");
        }
        let peers = on_backends(vec![parse("sluicegate").unwrap()], &backends);
        assert_eq!(names(&peers), ["mio", "af_packet"]);
        assert_eq!(references(peers.iter()), [0, 0]);
    }
}
