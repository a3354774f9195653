//! The servers that are compared.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::building::Builds;
use crate::configuration;
use crate::kind::Kind;
use crate::site::Site;

/// Name of the upstream, and end of the names of twins.
pub(crate) const UPSTREAM_NAME: &str = "upstream";
const TWIN_ENDING: &str = "-twin";

/// Port of the first server, and distance to that of its twin.
const FIRST: u16 = 4430;
const TWIN: u16 = 1000;

/// A server to compare.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Name in tables.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) program: PathBuf,
    /// Whether the program is the one that is built here.
    pub(crate) is_built: bool,
    pub(crate) port: u16,
}

/// A way to start a server.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Its configuration, if it has one: name and text.
    pub(crate) file: Option<(String, String)>,
}

impl Peer {
    /// Reads `[NAME:]KIND[=PROGRAM]`; the name is the kind unless given, and the program the one that is built here. `number`
    /// counts the servers.
    pub(crate) fn parse(text: &str, number: u16, builds: &Builds) -> Result<Self> {
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
        Ok(Self { name: name.to_owned(), kind, program, is_built, port: FIRST + number })
    }

    /// Returns the same server with a name and a port of its own.
    pub(crate) fn twin(&self) -> Self {
        Self { name: format!("{}{TWIN_ENDING}", self.name), port: self.port + TWIN, ..self.clone() }
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}/{path}", self.port)
    }

    /// Returns the command that starts it in the foreground.
    pub(crate) fn command(&self, site: &Site) -> Command {
        let text = configuration::configuration(self.kind, &self.name, self.port, site);
        let file = text.map(|(ending, text)| (format!("{}.{ending}", self.name), text));
        let path = |(name, _): &(String, String)| site.folder.join(name).display().to_string();
        let path = file.as_ref().map(path).unwrap_or_default();
        let address = format!("127.0.0.1:{}", self.port);
        let [root, certificate, key] =
            [site.root(), site.certificate(), site.key()].map(|path| path.display().to_string());
        let arguments: Vec<&str> = match self.kind {
            Kind::Sluicegate => vec!["run", "-c", &path],
            Kind::Nginx | Kind::H2o => vec!["-c", &path],
            Kind::Caddy => vec!["run", "--adapter", "caddyfile", "--config", &path],
            Kind::Haproxy => vec!["-db", "-f", &path],
            Kind::QuicGo | Kind::Quinn | Kind::TokioQuiche => {
                vec![&address, &root, &certificate, &key]
            }
        };
        Command {
            program: self.program.clone(),
            arguments: arguments.into_iter().map(str::to_owned).collect(),
            file,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Peer> {
        Peer::parse(text, 2, &Builds::new("target/release".into()))
    }

    #[test]
    fn a_server_has_a_kind_and_may_have_a_name() {
        let peer = parse("old:sluicegate=sluicegate-1").unwrap();
        assert_eq!((peer.name.as_str(), peer.kind, peer.port), ("old", Kind::Sluicegate, 4432));
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
    fn servers_have_a_configuration_or_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::write(folder.path()).unwrap();
        for kind in Kind::ALL {
            let peer = parse(&format!("{}=x", kind.name())).unwrap();
            let command = peer.command(&site);
            let text = match &command.file {
                Some((_, text)) => text.clone(),
                None => command.arguments.join(" "),
            };
            for part in ["4432", "/www"] {
                assert!(kind == Kind::Haproxy || text.contains(part), "{text}");
            }
        }
    }
}
