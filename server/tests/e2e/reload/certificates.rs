//! A reload each second with a thousand certificates, one of which is another one each time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_base::self_signed;
use tokio::time::Instant;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, run};
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};

on_auto!(
    #[ignore = "long"]
    a_thousand_certificates_are_reloaded_each_second_under_load,
);

const CERTIFICATES: usize = 1000;
/// Listeners, which share the certificates evenly.
const LISTENERS: usize = 4;
const RELOADS: usize = 60;
/// Memory that the second half of the reloads may add, bytes. A copy of the certificates takes several times as much.
const GROWTH: f64 = 4e6;

fn write(folder: &Folder, number: usize) {
    let key = self_signed::key().unwrap();
    let name = format!("site-{number}.example");
    let made = self_signed::certificate(&key, &[&name], &[1; 16], sluicegate_base::clock::unix());
    let file = |kind: &str| folder.path(&format!("{kind}-{number}.pem"));
    std::fs::write(file("cert"), made.unwrap().to_pem().unwrap()).unwrap();
    std::fs::write(file("key"), key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(file("key"), private).unwrap();
}

fn setup(backend: &str) -> Setup {
    let mut setup = Setup::new(backend).with(ADMIN).replace("[[group]]", "[[group]]\ncores = [0]");
    for listener in 0..LISTENERS {
        setup = setup
            .listener(&format!("listener-{listener}"), "127.0.0.1:0", "cubic")
            .replace("\n[listener.tls]", "\n[[listener.tls]]");
        for number in (0..CERTIFICATES).filter(|number| number % LISTENERS == listener) {
            setup = setup.with(&format!(
                "[[listener.tls]]\ncertificate = \"cert-{number}.pem\"\nkey = \"key-{number}.pem\""
            ));
        }
    }
    setup
}

/// Returns the longest turn and the longest step of the mailbox since `before`, each as its histogram's bound in milliseconds.
fn longest(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> [f64; 2] {
    ["turn_seconds_bucket{", "turn_phase_seconds_bucket{phase=\"mailbox\","].map(|name| {
        let start = format!("sluicegate_{name}le=\"");
        let more = |(name, count): (&String, &f64)| {
            let bound = name.strip_prefix(&start)?.strip_suffix("\"}")?;
            let bound = bound.parse().unwrap_or(f64::INFINITY);
            Some((bound, count - before[name]))
        };
        let mut buckets: Vec<(f64, f64)> = after.iter().filter_map(more).collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total = buckets.last().unwrap().1;
        1e3 * buckets.iter().find(|(_, count)| *count >= total).unwrap().0
    })
}

fn a_thousand_certificates_are_reloaded_each_second_under_load(backend: &str) {
    let folder = Folder::new();
    (0..CERTIFICATES).for_each(|number| write(&folder, number));
    let setup = setup(backend);
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let client = Arc::new(Client::new(&folder));
        let (stop, responses) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut load = Vec::new();
        for number in 0..8 {
            let name = format!("listener-{}", number % LISTENERS);
            let (client, at) = (Arc::clone(&client), server.listener(&name).0);
            let (stop, responses) = (Arc::clone(&stop), Arc::clone(&responses));
            load.push(tokio::spawn(async move {
                let mut session = client.connect(at).await;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(session.get("/").await.text().await, PAGE);
                    responses.fetch_add(1, Ordering::Relaxed);
                    if number < 2 {
                        session = client.connect(at).await;
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }));
        }
        let before = metrics(admin);
        let (mut took, mut resident) = (Vec::new(), Vec::new());
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        for reload in 0..RELOADS {
            seconds.tick().await;
            write(&folder, reload);
            let began = Instant::now();
            server.process.signal("HUP");
            let taken = (reload + 1) as f64;
            let name = "sluicegate_config_reloads_total{result=\"taken\"}";
            while metrics(admin)[name] < taken {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            took.push(began.elapsed());
            resident.push(metrics(admin)["process_resident_memory_bytes"]);
        }
        stop.store(true, Ordering::Relaxed);
        for task in load {
            task.await.unwrap();
        }
        let after = metrics(admin);
        let [turn, mailbox] = longest(&before, &after);
        took.sort();
        println!(
            "{backend}: {} responses, none failed; longest turn up to {turn} ms, longest step of the mailbox up to {mailbox} ms; \
             a reload took {:?} ({:?} to {:?}); resident {:.1} MB after 10 reloads, {:.1} after 30, {:.1} after {RELOADS}, \
             at most {:.1}",
            responses.load(Ordering::Relaxed),
            took[RELOADS / 2],
            took[0],
            took[RELOADS - 1],
            resident[9] / 1e6,
            resident[RELOADS / 2 - 1] / 1e6,
            resident[RELOADS - 1] / 1e6,
            resident.iter().fold(0.0, |a: f64, b| a.max(*b)) / 1e6,
        );
        let growth = resident[RELOADS - 1] - resident[RELOADS / 2 - 1];
        assert!(growth < GROWTH, "{growth} bytes more");
    });
}
