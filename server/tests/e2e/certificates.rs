//! Tests the warnings and the metric of certificates that are about to expire.

use std::time::Duration;

use sluicegate::quic::self_signed;

use crate::admin::{ADMIN, address, metrics};
use crate::server::{Folder, Server, Setup};

/// A certificate of ten years, seen from its last days on.
#[test]
fn a_certificate_about_to_expire_is_warned_of_at_start_and_reload_and_shown_in_metrics() {
    let now = sluicegate::clock::unix();
    let day = Duration::from_secs(86_400);
    let years = day * 3650;
    for (left, word) in [
        (day * 3 + day / 2, "days=3"),
        (day / 2, "within a day"),
        (Duration::ZERO, "has expired"),
    ] {
        let folder = Folder::new();
        let key = self_signed::key().unwrap();
        let made =
            self_signed::certificate(&key, &["a.example", "b.example"], &[1], now + left - years);
        std::fs::write(folder.path("cert.pem"), made.unwrap().to_pem().unwrap()).unwrap();
        std::fs::write(
            folder.path("key.pem"),
            key.private_key_to_pem_pkcs8().unwrap(),
        )
        .unwrap();
        let setup = Setup::new("mio")
            .with(ADMIN)
            .listener("main", "127.0.0.1:0", "cubic");
        let mut server = Server::start(&setup, &folder);
        let admin = address(&mut server);
        let parts = ["listener=main", "name=a.example", word];
        server.process.line_with(&parts);
        let sample =
            "sluicegate_certificate_expiry_timestamp_seconds{listener=\"main\",name=\"a.example\"}";
        let shown = metrics(admin)[sample];
        assert_eq!(shown, (now + left).as_secs_f64().floor(), "{word}");
        server.process.signal("HUP");
        server.process.line_with(&parts);
    }
}
