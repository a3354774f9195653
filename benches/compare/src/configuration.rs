//! Configurations: files below `/`, and a reverse proxy below `/proxied/`.
//!
//! Each server has one process or worker that serves, no access log, and connections to the upstream that stay open.

use crate::kind::Kind;
use crate::site::Site;

/// Port of the upstream.
pub(crate) const UPSTREAM: u16 = 8080;

/// Connections to the upstream that may stay open: as many as a workload has requests at a time.
const POOL: usize = 512;

/// Returns the ending of the file's name and the configuration of a server; None for one that has its settings in its own code.
pub(crate) fn configuration(
    kind: Kind,
    name: &str,
    port: u16,
    site: &Site,
) -> Option<(&'static str, String)> {
    Some(match kind {
        Kind::Sluicegate => ("toml", sluicegate(site, name, port)),
        Kind::Nginx => ("conf", nginx(site, name, &front(site, port))),
        Kind::Caddy => ("caddyfile", caddy(site, port)),
        Kind::H2o => ("yaml", h2o(site, port)),
        Kind::Haproxy => ("cfg", haproxy(site, port)),
        Kind::QuicGo | Kind::Quinn | Kind::TokioQuiche => return None,
    })
}

fn sluicegate(site: &Site, name: &str, port: u16) -> String {
    format!(
        "[server]\nstate_dir = \"{folder}/{name}-state\"\n\n[[listener]]\nname = \"public\"\naddress = \"127.0.0.1:{port}\"\n\
         tls = {{ certificate = \"{certificate}\", key = \"{key}\" }}\n\n[[route]]\npath = \"/proxied/\"\n\
         proxy = {{ upstreams = \"127.0.0.1:{UPSTREAM}\" }}\n\n[[route]]\npath = \"/\"\nfiles = {{ root = \"{root}\" }}\n",
        folder = site.folder.display(),
        certificate = site.certificate().display(),
        key = site.key().display(),
        root = site.root().display(),
    )
}

/// Returns what nginx has as a front.
fn front(site: &Site, port: u16) -> String {
    format!(
        "  upstream u {{ server 127.0.0.1:{UPSTREAM}; keepalive {POOL}; keepalive_requests 100000000; }}\n  server {{\n    \
         listen 127.0.0.1:{port} quic reuseport;\n    listen 127.0.0.1:{port} ssl;\n    http2 on;\n    \
         quic_gso on;\n    open_file_cache max=100;\n    http3_max_concurrent_streams 128;\n    ssl_certificate {certificate};\n    \
         ssl_certificate_key {key};\n    root {root};\n    location /proxied/ {{\n      proxy_pass http://u;\n      \
         proxy_max_temp_file_size 0;\n      proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n    }}\n  }}\n",
        certificate = site.certificate().display(),
        key = site.key().display(),
        root = site.root().display(),
    )
}

fn caddy(site: &Site, port: u16) -> String {
    format!(
        "{{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port {port}\n}}\nhttps://localhost:{port}, https://127.0.0.1:{port} {{\n\t\
         bind 127.0.0.1\n\ttls {certificate} {key}\n\treverse_proxy /proxied/* 127.0.0.1:{UPSTREAM} {{\n\t\ttransport http {{\n\t\t\t\
         keepalive_idle_conns_per_host {POOL}\n\t\t}}\n\t}}\n\troot * {root}\n\tfile_server\n}}\n",
        certificate = site.certificate().display(),
        key = site.key().display(),
        root = site.root().display(),
    )
}

fn h2o(site: &Site, port: u16) -> String {
    format!(
        "user: root\nnum-threads: 1\nmax-connections: 20000\nlisten: &tls\n  host: 127.0.0.1\n  port: {port}\n  ssl:\n    certificate-file: {certificate}\n    \
         key-file: {key}\nlisten:\n  <<: *tls\n  type: quic\nhosts:\n  default:\n    paths:\n      /proxied/:\n        \
         proxy.reverse.url: http://127.0.0.1:{UPSTREAM}/proxied/\n        proxy.preserve-host: ON\n      /:\n        file.dir: {root}\n",
        certificate = site.certificate().display(),
        key = site.key().display(),
        root = site.root().display(),
    )
}

fn haproxy(site: &Site, port: u16) -> String {
    format!(
        "global\n  nbthread 1\n  maxconn 5000\ndefaults\n  mode http\n  \
         timeout client 60s\n  timeout server 60s\n  timeout connect 5s\n  http-reuse always\nfrontend public\n  \
         bind quic4@127.0.0.1:{port} ssl crt {both} alpn h3\n  default_backend upstream\nbackend upstream\n  \
         server upstream 127.0.0.1:{UPSTREAM}\n",
        // It reads the key from a file beside the certificate with `.key` behind its name.
        both = site.certificate().display(),
    )
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
    format!("  server {{ listen 127.0.0.1:{UPSTREAM}; root {}; }}\n", site.root().display())
}
