//! Configurations: files below `/`, and reverse proxies below `/proxied/`, `/unix/` and `/h2c/`, by the way to the upstream.
//!
//! Each server has one process or worker that serves, no access log, and connections to the upstream that stay open.

use crate::backend::Driver;
use crate::kind::Kind;
use crate::network::Host;
use crate::peer::Peer;
use crate::running::Program;
use crate::site::Site;

/// Connections to the upstream that may stay open: as many as a workload has requests at a time.
const POOL: usize = 512;

/// Returns the program of a server, which runs in the foreground.
pub(crate) fn program(peer: &Peer, host: &Host, site: &Site) -> Program {
    let file = configuration(peer, host, site);
    let file = file.map(|(ending, text)| (format!("{}.{ending}", peer.name), text));
    let path = |(name, _): &(String, String)| site.folder.join(name).display().to_string();
    let path = file.as_ref().map(path).unwrap_or_default();
    let address = host.address().to_string();
    let [root, certificate, key] = [site.root(), site.certificate(peer.key), site.key(peer.key)]
        .map(|path| path.display().to_string());
    let arguments: Vec<&str> = match peer.kind {
        Kind::Sluicegate => vec!["run", "-c", &path],
        Kind::Nginx | Kind::H2o => vec!["-c", &path],
        Kind::Caddy => vec!["run", "--adapter", "caddyfile", "--config", &path],
        Kind::Haproxy => vec!["-db", "-f", &path],
        Kind::QuicGo | Kind::Quinn | Kind::TokioQuiche => vec![&address, &root, &certificate, &key],
    };
    Program {
        name: peer.name.clone(),
        program: peer.program.clone(),
        arguments: arguments.into_iter().map(str::to_owned).collect(),
        file,
    }
}

/// Returns the ending of the file's name and the configuration of a server; None for one that has its settings in its own code.
fn configuration(peer: &Peer, host: &Host, site: &Site) -> Option<(&'static str, String)> {
    Some(match peer.kind {
        Kind::Sluicegate => ("toml", sluicegate(peer, host, site)),
        Kind::Nginx => ("conf", nginx(site, &peer.name, &front(peer, host, site))),
        Kind::Caddy => ("caddyfile", caddy(peer, host, site)),
        Kind::H2o => ("yaml", h2o(peer, host, site)),
        Kind::Haproxy => ("cfg", haproxy(peer, host, site)),
        Kind::QuicGo | Kind::Quinn | Kind::TokioQuiche => return None,
    })
}

fn sluicegate(peer: &Peer, host: &Host, site: &Site) -> String {
    format!(
        "[server]\nstate_dir = \"{folder}/{name}-state\"\n\n{group}[[listener]]\nname = \"public\"\naddress = \"{address}\"\n\
         tls = {{ certificate = \"{certificate}\", key = \"{key}\" }}\n\n[[route]]\npath = \"/proxied/\"\n\
         proxy = {{ upstreams = \"{upstream}\" }}\n\n[[route]]\npath = \"/unix/\"\n\
         proxy = {{ upstreams = \"unix:{socket}\" }}\n\n[[route]]\npath = \"/h2c/\"\n\
         proxy = {{ upstreams = \"h2c://{h2c}\" }}\n\n[[route]]\npath = \"/bytes/\"\ngenerate = {{}}\n\n\
         [[route]]\npath = \"/\"\nfiles = {{ root = \"{root}\" }}\n",
        folder = site.folder.display(),
        name = peer.name,
        group = group(peer, host),
        address = host.address(),
        upstream = host.upstream(),
        h2c = host.upstream_h2c(),
        socket = site.socket().display(),
        certificate = site.certificate(peer.key).display(),
        key = site.key(peer.key).display(),
        root = site.root().display(),
    )
}

/// Returns the product's group, unless all of it is left to the product.
fn group(peer: &Peer, host: &Host) -> String {
    if peer.backend.is_none() && peer.keys.is_empty() {
        return String::new();
    }
    let mut text = "[[group]]\nname = \"default\"\n".to_owned();
    for key in &peer.keys {
        text += &format!("{key}\n");
    }
    if let Some(backend) = &peer.backend {
        let device = backend.on(&host.interface());
        text += &match backend.driver {
            Driver::Sockets(_) => format!("backend = \"{device}\"\n"),
            Driver::AfXdp | Driver::AfPacket => format!(
                "backend = \"dpdk\"\n[group.dpdk]\ndevice = \"{device}\"\naddresses = [\"{}/24\"]\n",
                host.address().ip()
            ),
        };
    }
    text + "\n"
}

/// Returns what nginx has as a front. It speaks HTTP/2 to upstreams since 1.29.4.
fn front(peer: &Peer, host: &Host, site: &Site) -> String {
    let ways = [
        ("proxied", host.upstream().to_string(), "1.1; proxy_set_header Connection \"\""),
        (
            "unix",
            format!("unix:{}", site.socket().display()),
            "1.1; proxy_set_header Connection \"\"",
        ),
        ("h2c", host.upstream_h2c().to_string(), "2"),
    ];
    let upstreams = ways.iter().map(|(name, address, _)| {
        format!(
            "  upstream {name} {{ server {address}; keepalive {POOL}; keepalive_requests 100000000; }}\n"
        )
    });
    let locations = ways.iter().map(|(name, _, version)| {
        format!(
            "    location /{name}/ {{ proxy_pass http://{name}; proxy_max_temp_file_size 0; proxy_http_version {version}; }}\n"
        )
    });
    format!(
        "{upstreams}  server {{\n    \
         listen {address} quic reuseport;\n    listen {address} ssl;\n    http2 on;\n    \
         quic_gso on;\n    open_file_cache max=100;\n    http3_max_concurrent_streams 128;\n    ssl_certificate {certificate};\n    \
         ssl_certificate_key {key};\n    root {root};\n{locations}  }}\n",
        upstreams = upstreams.collect::<String>(),
        locations = locations.collect::<String>(),
        certificate = site.certificate(peer.key).display(),
        key = site.key(peer.key).display(),
        root = site.root().display(),
        address = host.address(),
    )
}

fn caddy(peer: &Peer, host: &Host, site: &Site) -> String {
    let ways = [
        ("proxied", host.upstream().to_string(), ""),
        ("unix", format!("unix/{}", site.socket().display()), ""),
        ("h2c", host.upstream_h2c().to_string(), "\t\t\tversions h2c 2\n"),
    ];
    let proxies = ways.map(|(name, address, versions)| {
        format!(
            "\treverse_proxy /{name}/* {address} {{\n\t\ttransport http {{\n\t\t\t\
             keepalive_idle_conns_per_host {POOL}\n{versions}\t\t}}\n\t}}\n"
        )
    });
    format!(
        "{{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port {port}\n}}\nhttps://localhost:{port}, https://{address} {{\n\t\
         bind {ip}\n\ttls {certificate} {key}\n{proxies}\troot * {root}\n\tfile_server\n}}\n",
        proxies = proxies.concat(),
        certificate = site.certificate(peer.key).display(),
        key = site.key(peer.key).display(),
        root = site.root().display(),
        address = host.address(),
        ip = host.address().ip(),
        port = host.address().port(),
    )
}

fn h2o(peer: &Peer, host: &Host, site: &Site) -> String {
    let unix = format!("[unix:{}]", site.socket().display());
    let h2c =
        "        proxy.http2.ratio: 100\n        proxy.http2.force-cleartext: ON\n".to_owned();
    let ways = [
        ("proxied", host.upstream().to_string(), String::new()),
        ("unix", unix, String::new()),
        ("h2c", host.upstream_h2c().to_string(), h2c),
    ];
    let proxies = ways.map(|(name, address, more)| {
        format!(
            "      /{name}/:\n        proxy.reverse.url: http://{address}/{name}/\n        \
             proxy.preserve-host: ON\n{more}"
        )
    });
    format!(
        "user: root\nnum-threads: 1\nmax-connections: 20000\nlisten: &tls\n  host: {ip}\n  port: {port}\n  ssl:\n    certificate-file: {certificate}\n    \
         key-file: {key}\nlisten:\n  <<: *tls\n  type: quic\nhosts:\n  default:\n    paths:\n{proxies}      /:\n        file.dir: {root}\n",
        proxies = proxies.concat(),
        certificate = site.certificate(peer.key).display(),
        key = site.key(peer.key).display(),
        root = site.root().display(),
        ip = host.address().ip(),
        port = host.address().port(),
    )
}

fn haproxy(peer: &Peer, host: &Host, site: &Site) -> String {
    format!(
        "global\n  nbthread 1\n  maxconn 5000\ndefaults\n  mode http\n  \
         timeout client 60s\n  timeout server 60s\n  timeout connect 5s\n  http-reuse always\nfrontend public\n  \
         bind quic4@{address} ssl crt {both} alpn h3\n  bind {address} ssl crt {both} alpn h2,http/1.1\n  \
         use_backend unix if {{ path_beg /unix/ }}\n  use_backend h2c if {{ path_beg /h2c/ }}\n  default_backend upstream\n\
         backend upstream\n  server upstream {upstream}\nbackend unix\n  server upstream unix@{socket}\n\
         backend h2c\n  server upstream {h2c} proto h2\n",
        // It reads the key from a file beside the certificate with `.key` behind its name.
        both = site.certificate(peer.key).display(),
        address = host.address(),
        upstream = host.upstream(),
        socket = site.socket().display(),
        h2c = host.upstream_h2c(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::building::Builds;
    use crate::kind::{Resource, Upstream};
    use crate::site::Key;

    #[test]
    fn servers_have_a_configuration_or_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::write(folder.path()).unwrap();
        let host = Host::local(2);
        for kind in Kind::ALL {
            let peer = format!("{}=x", kind.name());
            let peer = Peer::parse(&peer, &Builds::new("target/release".into())).unwrap();
            let program = program(&peer, &host, &site);
            let text = match &program.file {
                Some((_, text)) => text.clone(),
                None => program.arguments.join(" "),
            };
            for part in ["4432", "/www"] {
                assert!(kind == Kind::Haproxy || text.contains(part), "{text}");
            }
            for (upstream, part) in [
                (Upstream::Tcp, "8080"),
                (Upstream::Unix, "upstream.socket"),
                (Upstream::H2c, "8081"),
            ] {
                let serves = kind.serves(Resource::Proxied(upstream));
                assert_eq!(serves, text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn a_twin_with_another_key_has_its_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::write(folder.path()).unwrap();
        for kind in Kind::ALL {
            let peer = format!("{}=x", kind.name());
            let peer = Peer::parse(&peer, &Builds::new("target/release".into())).unwrap();
            let program = program(&peer.twin(Key::Rsa), &Host::local(2), &site);
            let text = program.file.map_or(program.arguments.join(" "), |(_, text)| text);
            assert!(text.contains("certificate-rsa.pem"), "{text}");
            assert!(!text.contains("certificate.pem"), "{text}");
        }
    }

    #[test]
    fn a_group_has_its_backend_and_keys() {
        let host = Host::local(2);
        let builds = Builds::new("target/release".into());
        let mut peer = Peer::parse("sluicegate", &builds).unwrap();
        assert_eq!(group(&peer, &host), "");
        peer.keys.push("spin = \"1ms\"".to_owned());
        for backend in Backend::ALL {
            peer.backend = Some(backend);
            let group: toml::Table = group(&peer, &host).parse().unwrap();
            let group = &group["group"][0];
            assert_eq!(group["spin"].as_str(), Some("1ms"));
            let device = match backend.driver {
                Driver::Sockets(_) => &group["backend"],
                Driver::AfXdp | Driver::AfPacket => &group["dpdk"]["device"],
            };
            let interface = host.interface();
            assert_eq!(device.as_str(), Some(backend.on(&interface).as_str()));
        }
    }
}
