//! Envoy, whose connection IDs nobody here has made, behind the balancer and beside a server of this project, with the same key.

use std::process::{Command, Stdio};

use sluicegate_dataplane::requirements::skip;

use super::{Balancer, Named, clients_stay_with, folder};
use crate::installed::installed;
use crate::ports;
use crate::server::{Folder, Process};

const IDS: &str = "config = 1\nnonce = 8\nkey_file = \"old.key\"";
/// As in `old.key`.
const KEY: &str = "j5XwkkV2X4AlaTTlDGYgfw==";
const ENVOY: &str = "0102030405060709";

/// Envoy's configuration: a listener at `PORT`, with the extension quic_lb and the key in `KEYS`, that responds `envoy`.
const CONFIGURATION: &str = r#"
node: { id: envoy, cluster: envoy }
static_resources:
  listeners:
  - name: main
    address: { socket_address: { protocol: UDP, address: 127.0.0.1, port_value: PORT } }
    udp_listener_config:
      quic_options:
        connection_id_generator_config:
          name: envoy.quic.connection_id_generator.quic_lb
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.quic.connection_id_generator.quic_lb.v3.Config
            server_id: { inline_bytes: "AQIDBAUGBwk=" }
            nonce_length_bytes: 8
            encryption_parameters:
              name: key
              sds_config: { path_config_source: { path: KEYS } }
    filter_chains:
    - transport_socket:
        name: quic
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport
          downstream_tls_context:
            common_tls_context:
              alpn_protocols: [h3]
              tls_certificates:
              - certificate_chain: { filename: cert.pem }
                private_key: { filename: key.pem }
      filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          codec_type: HTTP3
          stat_prefix: main
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: { prefix: "/" }
                direct_response: { status: 200, body: { inline_string: envoy } }
          http_filters:
          - name: router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
"#;

/// The key, and the number of its configuration.
const SECRET: &str = r#"
resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: key
  generic_secret:
    secrets:
      encryption_key: { inline_bytes: "KEY" }
      configuration_version: { inline_bytes: "AQ==" }
"#;

/// Starts Envoy with the certificate of `folder`. Returns its address, too.
fn start(folder: &Folder) -> Option<(Process, String)> {
    let Some(program) = installed("envoy/envoy") else {
        skip("envoy", &"`make envoy` installs it");
        return None;
    };
    let address = ports::free().local_addr().unwrap();
    let keys = folder.path("key.yaml");
    let configuration = CONFIGURATION
        .replace("PORT", &address.port().to_string())
        .replace("KEYS", keys.to_str().unwrap());
    std::fs::write(folder.path("envoy.yaml"), configuration).unwrap();
    std::fs::write(keys, SECRET.replace("KEY", KEY)).unwrap();
    let mut command = Command::new(program);
    let words = ["--config-path", "envoy.yaml", "--concurrency", "1", "--disable-hot-restart"];
    command.args(words).stdin(Stdio::null());
    let mut process = Process::spawn(command, &folder.path(""));
    process.line_with(&["starting main dispatch loop"]);
    Some((process, address.to_string()))
}

#[test]
fn clients_of_envoy_stay_with_it_when_they_move() {
    let folder = folder();
    let Some((_envoy, address)) = start(&folder) else { return };
    let ours = Named::start("auto", &folder, "ours", "0102030405060708", ("127.0.0.1:0", &[IDS]));
    let envoy =
        format!("[[server]]\nname = \"envoy\"\nserver_id = \"{ENVOY}\"\naddress = \"{address}\"");
    let ids = format!("server_id_length = 8\n{IDS}");
    let balancer = Balancer::start(&folder, &[&ours], &[&ids, &envoy], &[]);
    clients_stay_with(["envoy", "ours"], &folder, balancer);
}
