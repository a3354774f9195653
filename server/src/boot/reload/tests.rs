use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use sluicegate_base::observe::lifecycle::Lifecycle;
use sluicegate_base::observe::metrics::{Page, Show};
use sluicegate_base::observe::request_logs::RequestLogWriters;
use sluicegate_base::tls::Identity;
use sluicegate_cc::{Observation, PathCapacity};
use sluicegate_dataplane::{ListenerId, Payloads, Steering};
use sluicegate_http::route::Site;
use sluicegate_quic::settings::Lease;

use super::*;
use crate::admin::{AdminState, Connections, Profiles, Scraper, Sources, Traces, WorkerQueries};
use crate::boot::error::one_line;
use crate::boot::liveness::tests::watched;
use crate::snapshot::{BoundAddress, Protocols};

const FILE: &str = "[[group]]\nname = \"a\"\n[[listener]]\nname = \"main\"\ngroup = \"a\"\naddress = \"[::1]:1\"\ntcp = false\n\
                    tls = { certificate = \"chain.pem\", key = \"key.pem\" }\n";

fn bound(reloader: &Reloader<'_>) -> BoundListener {
    let listener = &reloader.config.listeners[0];
    let prepared = prepare(
        listener,
        reloader.registry,
        &reloader.config,
        &reloader.snapshot.secrets,
        PreviousSettings::default(),
    );
    BoundListener {
        name: listener.name.clone(),
        at: BoundAddress {
            id: ListenerId(0),
            group: "a".to_owned(),
            local: listener.addresses[0],
            configured: listener.addresses[0],
            lease: Lease::default(),
            protocols: Protocols::Quic,
            payloads: Payloads::default(),
        },
        settings: prepared.unwrap(),
    }
}

/// Returns a reloader of the configuration in a file, which has the one listener.
fn reloader<'a>(
    source: PathBuf,
    registry: &'a Registry,
    lifecycle: &Arc<Lifecycle>,
    workers: Vec<WorkerHandle>,
) -> Reloader<'a> {
    let config = Config::load(&source, registry).unwrap();
    let secrets = Arc::new(Secrets::in_memory());
    let snapshot = ConfigSnapshot {
        generation: 1,
        site: Arc::new(Site::compile(&config.routes, &config.limits).unwrap()),
        limits: config.limits.clone(),
        quic: config.quic.clone(),
        secrets: Arc::clone(&secrets),
        bound_listeners: Vec::new(),
        logs: RequestLogWriters::default(),
        tracing: None,
        drain_timeout: config.server.drain_timeout,
    };
    let admin_state = Arc::new(AdminState {
        lifecycle: Arc::clone(lifecycle),
        scraper: Scraper::new(Sources::default()),
        connections: Connections::default(),
        workers: WorkerQueries::default(),
        traces: Traces::new(Arc::default()),
        algorithms: registry.clone(),
        profiles: Profiles::default(),
        hosts: std::sync::Mutex::default(),
    });
    let mut reloader = Reloader {
        source: Some(source),
        registry,
        upkeep: Upkeep::new(lifecycle, &snapshot),
        renewals: AcmeRenewals::new(|| (), lifecycle),
        parts: Parts::of(0, &config),
        snapshot: Arc::new(snapshot),
        admin: AdminAddress::open(&config.admin, &admin_state, &Passed::default()).unwrap(),
        passed: Arc::default(),
        takeover: None,
        losses: Arc::default(),
        others_drain: false,
        config,
        secrets_file: SecretsFile::new(clock::now()),
        access: Arc::default(),
        spans: Arc::default(),
        fronts: Fronts::new(&workers),
        traces: Arc::default(),
        workers,
        retired: Retired::default(),
        removed: RemovedListeners::default(),
        next_id: 1,
        steering: Steering::Hash,
    };
    let bound_listeners = vec![bound(&reloader)];
    Arc::get_mut(&mut reloader.snapshot).unwrap().bound_listeners = bound_listeners;
    reloader
}

/// Writes a certificate and its key into a folder.
fn write(folder: &Path, identity: &Identity) {
    fs::write(folder.join("chain.pem"), &identity.chain).unwrap();
    let key = folder.join("key.pem");
    fs::write(&key, &identity.key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_certificate_that_was_obtained_needs_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [first, second] = [(); 2].map(|()| Identity::self_signed().unwrap());
    write(folder, &first);
    let (source, clients) = (folder.join("s.toml"), folder.join("clients.pem"));
    fs::write(&source, format!("{FILE}client_ca = \"clients.pem\"\n")).unwrap();
    fs::write(&clients, &first.chain).unwrap();
    let registry = Registry::builtin();
    let lifecycle = Arc::<Lifecycle>::default();
    let (worker, _mailbox, _commands) = watched(0);
    let mut reloader = reloader(source, &registry, &lifecycle, vec![worker]);
    let options = |of: &Reloader<'_>| {
        Arc::clone(&of.snapshot.bound_listeners[0].settings.identities.first.options)
    };
    let before = options(&reloader);
    fs::remove_file(&clients).unwrap();
    assert_eq!(reloader.install_certificates().unwrap(), None);
    write(folder, &second);
    assert_eq!(reloader.install_certificates().unwrap(), Some(2));
    assert!(Arc::ptr_eq(&before, &options(&reloader)));
    let refused = reloader.reload().unwrap_err();
    assert!(one_line(&refused).contains("clients.pem"));
}

/// The table of a listener's paths is the one from before, in the snapshot as in the workers.
#[test]
fn reload_keeps_the_capacities_of_paths() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, &Identity::self_signed().unwrap());
    let source = folder.join("s.toml");
    let registry = Registry::builtin();
    let lifecycle = Arc::<Lifecycle>::default();
    let configure = |more: &str| fs::write(&source, format!("{FILE}careful_resume = true\n{more}"));
    configure("").unwrap();
    let (worker, mailbox, _commands) = watched(0);
    let mut reloader = reloader(source.clone(), &registry, &lifecycle, vec![worker]);
    let path = |of: &Reloader<'_>| {
        let selection = &of.snapshot.bound_listeners[0].settings.selection;
        let path = selection.path("::1".parse().unwrap(), &Arc::default());
        let path = path.unwrap();
        path.client.set("2001:db8::1".parse().unwrap());
        path.memory
    };
    let capacity = PathCapacity { cwnd: 100_000, min_rtt: Duration::from_millis(100) };
    let memory = path(&reloader);
    memory.save(Observation { capacity, is_least: false });
    memory.release();
    reloader.reload().unwrap();
    mailbox.take().expect("the configuration");
    let memory = path(&reloader);
    assert_eq!(memory.claim(), Some(capacity));
    memory.release();
    configure("careful_resume_clients = 8\n").unwrap();
    reloader.reload().unwrap();
    assert_eq!(path(&reloader).claim(), None);
}

#[test]
fn a_configuration_reaches_all_workers_ready_for_use_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let [source, chain, key] = ["s.toml", "chain.pem", "key.pem"].map(|f| folder.path().join(f));
    let [first, second] = [(); 2].map(|()| Identity::self_signed().unwrap());
    fs::write(&source, FILE).unwrap();
    fs::write(&chain, &first.chain).unwrap();
    fs::write(&key, &first.key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let registry = Registry::builtin();
    let (workers, mailboxes): (Vec<_>, Vec<_>) = (0..2)
        .map(|index| {
            let (worker, mailbox, commands) = watched(index);
            (worker, (mailbox, commands))
        })
        .unzip();
    let lifecycle = Arc::<Lifecycle>::default();
    let mut reloader = reloader(source, &registry, &lifecycle, workers);

    fs::write(&key, &second.key).unwrap();
    assert!(reloader.reload().is_err(), "the key of another certificate");
    assert!(mailboxes.iter().all(|(mailbox, _)| mailbox.take().is_none()));

    fs::write(&chain, &second.chain).unwrap();
    assert_eq!(reloader.reload().unwrap(), 2);
    for (mailbox, _) in &mailboxes {
        let Some(Command::Adopt(snapshot, own)) = mailbox.take() else {
            panic!("a worker keeps the old configuration");
        };
        assert_eq!((snapshot.generation, own.listeners.len()), (2, 1));
    }
    let mut page = Page::default();
    lifecycle.certificates().show(&mut page);
    let sample = "expiry_timestamp_seconds{listener=\"main\",name=\"localhost\"} ";
    assert!(page.into_text().contains(sample));

    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = reloader.reload().unwrap_err();
    assert!(one_line(&refused).contains("chmod 600"));
}
