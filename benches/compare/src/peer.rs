//! The servers that are compared, and how each is configured: files below `/`, and a reverse proxy below `/proxied/`.
//!
//! Each has one process or worker that serves, no access log, and connections to the upstream that stay open.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};

use crate::site::Site;

/// Name of the upstream, and end of the names of twins.
pub(crate) const UPSTREAM_NAME: &str = "upstream";
const TWIN_ENDING: &str = "-twin";

/// Port of the upstream.
pub(crate) const UPSTREAM: u16 = 8080;

/// Connections to the upstream that may stay open: as many as a workload has requests at a time.
const POOL: usize = 512;

/// Port of the first server, and distance to that of its twin.
const FIRST: u16 = 4430;
const TWIN: u16 = 1000;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sluicegate,
    Nginx,
    Caddy,
    H2o,
    Haproxy,
}

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    File,
    Proxied,
}

/// A server to compare.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Name in tables.
    pub(crate) name: String,
    kind: Kind,
    program: PathBuf,
    pub(crate) port: u16,
}

/// A way to start a server.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Its configuration: name and text.
    pub(crate) file: (String, String),
}

impl Peer {
    /// Reads `KIND=PROGRAM` or `NAME:KIND=PROGRAM`; the name is the kind unless given. `number` counts the servers.
    pub(crate) fn parse(text: &str, number: u16) -> Result<Self> {
        let remedy = "expected KIND=PROGRAM or NAME:KIND=PROGRAM";
        let (left, program) = text
            .split_once('=')
            .with_context(|| format!("`{text}`: {remedy}"))?;
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
        let kind = match kind {
            "sluicegate" => Kind::Sluicegate,
            "nginx" => Kind::Nginx,
            "caddy" => Kind::Caddy,
            "h2o" => Kind::H2o,
            "haproxy" => Kind::Haproxy,
            _ => bail!(
                "`{text}`: `{kind}` is no kind of server; expected sluicegate, nginx, caddy, h2o or haproxy"
            ),
        };
        let program = PathBuf::from(program);
        // A name without a folder is looked up in PATH.
        let program = match program.components().count() {
            1 => program,
            _ => program
                .canonicalize()
                .with_context(|| format!("`{text}`"))?,
        };
        Ok(Self {
            name: name.to_owned(),
            kind,
            program,
            port: FIRST + number,
        })
    }

    /// Returns the same server with a name and a port of its own.
    pub(crate) fn twin(&self) -> Self {
        Self {
            name: format!("{}{TWIN_ENDING}", self.name),
            port: self.port + TWIN,
            ..self.clone()
        }
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}/{path}", self.port)
    }

    /// Returns whether it has such resources.
    pub(crate) fn serves(&self, resource: Resource) -> bool {
        // HAProxy has no files.
        self.kind != Kind::Haproxy || resource == Resource::Proxied
    }

    /// Returns the arguments that print the version.
    pub(crate) fn version(&self) -> (PathBuf, &'static [&'static str]) {
        let arguments: &[&str] = match self.kind {
            Kind::Sluicegate | Kind::H2o => &["--version"],
            Kind::Nginx | Kind::Haproxy => &["-v"],
            Kind::Caddy => &["version"],
        };
        (self.program.clone(), arguments)
    }

    /// Returns the command that starts it in the foreground.
    pub(crate) fn command(&self, site: &Site) -> Command {
        let (ending, text) = match self.kind {
            Kind::Sluicegate => ("toml", self.sluicegate(site)),
            Kind::Nginx => ("conf", nginx(site, &self.name, &self.front(site))),
            Kind::Caddy => ("caddyfile", self.caddy(site)),
            Kind::H2o => ("yaml", self.h2o(site)),
            Kind::Haproxy => ("cfg", self.haproxy(site)),
        };
        let name = format!("{}.{ending}", self.name);
        let file = site.folder.join(&name).display().to_string();
        let arguments: Vec<&str> = match self.kind {
            Kind::Sluicegate => vec!["run", "-c", &file],
            Kind::Nginx => vec!["-c", &file],
            Kind::Caddy => vec!["run", "--adapter", "caddyfile", "--config", &file],
            Kind::H2o => vec!["-c", &file],
            Kind::Haproxy => vec!["-db", "-f", &file],
        };
        Command {
            program: self.program.clone(),
            arguments: arguments.into_iter().map(str::to_owned).collect(),
            file: (name, text),
        }
    }

    fn sluicegate(&self, site: &Site) -> String {
        format!(
            "[server]\nstate_dir = \"{folder}/{name}-state\"\n\n[[listener]]\nname = \"public\"\naddress = \"127.0.0.1:{port}\"\n\
             tls = {{ certificate = \"{certificate}\", key = \"{key}\" }}\n\n[[route]]\npath = \"/proxied/\"\n\
             proxy = {{ upstreams = \"127.0.0.1:{UPSTREAM}\" }}\n\n[[route]]\npath = \"/\"\nfiles = {{ root = \"{root}\" }}\n",
            folder = site.folder.display(),
            name = self.name,
            port = self.port,
            certificate = site.certificate().display(),
            key = site.key().display(),
            root = site.root().display(),
        )
    }

    /// Returns what nginx has as a front.
    fn front(&self, site: &Site) -> String {
        format!(
            "  upstream u {{ server 127.0.0.1:{UPSTREAM}; keepalive {POOL}; keepalive_requests 100000000; }}\n  server {{\n    \
             listen 127.0.0.1:{port} quic reuseport;\n    listen 127.0.0.1:{port} ssl;\n    http2 on;\n    \
             quic_gso on;\n    open_file_cache max=100;\n    http3_max_concurrent_streams 128;\n    ssl_certificate {certificate};\n    \
             ssl_certificate_key {key};\n    root {root};\n    location /proxied/ {{\n      proxy_pass http://u;\n      \
             proxy_max_temp_file_size 0;\n      proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n    }}\n  }}\n",
            port = self.port,
            certificate = site.certificate().display(),
            key = site.key().display(),
            root = site.root().display(),
        )
    }

    fn caddy(&self, site: &Site) -> String {
        format!(
            "{{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port {port}\n}}\nhttps://localhost:{port}, https://127.0.0.1:{port} {{\n\t\
             bind 127.0.0.1\n\ttls {certificate} {key}\n\treverse_proxy /proxied/* 127.0.0.1:{UPSTREAM} {{\n\t\ttransport http {{\n\t\t\t\
             keepalive_idle_conns_per_host {POOL}\n\t\t}}\n\t}}\n\troot * {root}\n\tfile_server\n}}\n",
            port = self.port,
            certificate = site.certificate().display(),
            key = site.key().display(),
            root = site.root().display(),
        )
    }

    fn h2o(&self, site: &Site) -> String {
        format!(
            "user: root\nnum-threads: 1\nmax-connections: 20000\nlisten: &tls\n  host: 127.0.0.1\n  port: {port}\n  ssl:\n    certificate-file: {certificate}\n    \
             key-file: {key}\nlisten:\n  <<: *tls\n  type: quic\nhosts:\n  default:\n    paths:\n      /proxied/:\n        \
             proxy.reverse.url: http://127.0.0.1:{UPSTREAM}/proxied/\n        proxy.preserve-host: ON\n      /:\n        file.dir: {root}\n",
            port = self.port,
            certificate = site.certificate().display(),
            key = site.key().display(),
            root = site.root().display(),
        )
    }

    fn haproxy(&self, site: &Site) -> String {
        format!(
            "global\n  nbthread 1\n  maxconn 20000\n  tune.quic.frontend.max-streams-bidi 128\ndefaults\n  mode http\n  \
             timeout client 60s\n  timeout server 60s\n  timeout connect 5s\n  http-reuse always\nfrontend public\n  \
             bind quic4@127.0.0.1:{port} ssl crt {both} alpn h3\n  default_backend upstream\nbackend upstream\n  \
             server upstream 127.0.0.1:{UPSTREAM}\n",
            port = self.port,
            // It reads the key from a file beside the certificate with `.key` behind its name.
            both = site.certificate().display(),
        )
    }
}

/// Returns a configuration of nginx with some servers in it.
pub(crate) fn nginx(site: &Site, name: &str, servers: &str) -> String {
    let folder = site.folder.display();
    format!(
        "user root;\nworker_processes 1;\ndaemon off;\npid {folder}/{name}.pid;\nerror_log {folder}/{name}.log;\n\
         events {{ worker_connections 20000; }}\nhttp {{\n  access_log off;\n  sendfile on;\n  \
         keepalive_requests 100000000;\n  keepalive_timeout 300;\n  default_type application/octet-stream;\n  \
         client_body_temp_path {folder}/{name}-1;\n  proxy_temp_path {folder}/{name}-2;\n  \
         fastcgi_temp_path {folder}/{name}-3;\n  uwsgi_temp_path {folder}/{name}-4;\n  scgi_temp_path {folder}/{name}-5;\n{servers}}}\n"
    )
}

/// Returns what the upstream has as a server.
pub(crate) fn upstream(site: &Site) -> String {
    format!(
        "  server {{ listen 127.0.0.1:{UPSTREAM}; root {}; }}\n",
        site.root().display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_a_kind_and_may_have_a_name() {
        let peer = Peer::parse("old:sluicegate=sluicegate-1", 2).unwrap();
        assert_eq!(
            (peer.name.as_str(), peer.kind, peer.port),
            ("old", Kind::Sluicegate, 4432)
        );
        assert_eq!(Peer::parse("nginx=nginx", 0).unwrap().name, "nginx");
        for wrong in [
            "nginx",
            "apache=httpd",
            "nginx=/no/such/nginx",
            "a/b:nginx=nginx",
            "upstream:nginx=nginx",
            "x-twin:nginx=nginx",
        ] {
            let error = format!("{:#}", Peer::parse(wrong, 0).unwrap_err());
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn haproxy_has_no_files() {
        let haproxy = Peer::parse("haproxy=haproxy", 0).unwrap();
        assert!(haproxy.serves(Resource::Proxied) && !haproxy.serves(Resource::File));
    }
}
