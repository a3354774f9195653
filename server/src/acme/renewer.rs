//! The thread that obtains and renews certificates.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use boring::rand::rand_bytes;
use sluicegate_base::clock;
use sluicegate_base::observe::acme::AcmeStatus;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::authority::{Authority, Suggestion};
use super::error::AcmeError;
use super::issued::Issued;
use super::order::{DnsSettings, Wanted, obtain, turned};
use super::schedule::retry_after;
use super::settings::AcmeSettings;
use super::store::{Lock, Stamp};

/// Time between two looks at the files, which another instance may have written.
const PAUSE: Duration = Duration::from_secs(5);
/// Bounds of the time until the authority is asked again when to renew, seconds.
const ASKING: (i64, i64) = (3600, 86_400);

/// Attempts in a row while the authority refuses nonces, each with an order of its own. Every request of an attempt is repeated before
/// it fails for its nonce (RFC 8555 §6.5).
const ATTEMPTS: u32 = 3;

/// Called on the thread of renewals when certificates have been written, by this instance or another one.
type OnChange = Box<dyn Fn() + Send>;

/// The thread that obtains and renews certificates, in the background until the process ends.
#[derive(Debug)]
pub struct Renewals(UnboundedSender<AcmeSettings>);

impl Renewals {
    /// Starts the thread. It calls `on_change` whenever files of certificates have changed, and once for those that it finds.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        settings: AcmeSettings,
        status: Arc<AcmeStatus>,
        on_change: impl Fn() + Send + 'static,
    ) -> io::Result<Renewals> {
        let (sender, settings_of_reloads) = unbounded_channel();
        let renewer = Renewer {
            settings,
            status,
            on_change: Box::new(on_change),
            certificates: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            authority: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new()
            .name("acme".into())
            .spawn(move || runtime.block_on(renewer.run(settings_of_reloads)))?;
        Ok(Renewals(sender))
    }

    /// Takes the settings of another configuration. Certificates that are due are tried at once.
    pub fn adopt(&self, settings: AcmeSettings) {
        // The thread ends only with the process.
        let _ = self.0.send(settings);
    }
}

/// A certificate of the configuration.
#[derive(Debug, Default)]
struct Certificate {
    /// The file that was last looked at, and what it holds.
    found: Option<(Issued, Stamp)>,
    /// Time of the renewal, in seconds since 1970.
    renewal: i64,
    /// Time to ask the authority when to renew, in seconds since 1970.
    asking: i64,
    /// Failures in a row.
    failures: u32,
    /// Time of the next attempt after a failure, in seconds since 1970.
    retry: i64,
}

impl Certificate {
    /// Returns the time of the next attempt, in seconds since 1970.
    fn next(&self) -> i64 {
        let renewal = self.found.as_ref().map_or(0, |_| self.renewal);
        renewal.max(self.retry)
    }

    fn take(&mut self, found: Option<(Issued, Stamp)>) {
        *self = Certificate {
            renewal: found
                .as_ref()
                .map_or(0, |(issued, stamp)| issued.validity.renewal(stamp.written(), jitter())),
            found,
            ..Certificate::default()
        };
    }
}

struct Renewer {
    settings: AcmeSettings,
    status: Arc<AcmeStatus>,
    on_change: OnChange,
    /// By their names.
    certificates: BTreeMap<Vec<String>, Certificate>,
    /// Certificates that were issued and could not be written, PEM with their keys, by their names. Authorities limit how often they
    /// issue one.
    unwritten: BTreeMap<Vec<String>, String>,
    /// The authority, once it has been reached.
    authority: Option<Authority>,
}

impl Renewer {
    async fn run(mut self, mut reloads: UnboundedReceiver<AcmeSettings>) {
        loop {
            self.turn().await;
            match timeout(PAUSE, reloads.recv()).await {
                Ok(Some(settings)) => self.adopt(settings),
                Ok(None) => return self.status.set_next(BTreeMap::new()),
                Err(_) => {}
            }
        }
    }

    fn adopt(&mut self, settings: AcmeSettings) {
        if settings.acme.directory != self.settings.acme.directory {
            self.unwritten.clear();
        }
        self.settings = settings;
        self.authority = None;
        self.certificates.clear();
    }

    /// Looks at all files, asks when to renew, and renews what is due.
    async fn turn(&mut self) {
        if self.look() {
            (self.on_change)();
        }
        let names: Vec<Vec<String>> = self.certificates.keys().cloned().collect();
        for names in names {
            self.ask(&names).await;
            if now() >= self.certificate(&names).next() {
                self.renew(&names).await;
            }
        }
        let next = self.certificates.iter().filter_map(|(names, certificate)| {
            Some((names.first()?.clone(), certificate.next().max(now())))
        });
        self.status.set_next(next.collect());
    }

    /// Reads the files that have changed; returns whether one has.
    fn look(&mut self) -> bool {
        let store = &self.settings.store;
        let mut changed = false;
        for names in &self.settings.certificates {
            let known = self.certificates.get(names);
            let stamp = known.and_then(|known| Some(known.found.as_ref()?.1));
            if known.is_some() && store.stamp(names) == stamp {
                continue;
            }
            let found = store.issued(names);
            if known.is_some() && found.is_none() && stamp.is_none() {
                continue;
            }
            changed |= found.is_some();
            if found.is_none() {
                tracing::warn!(
                    ?names,
                    "no certificate yet: clients get a self-signed one until it has been obtained"
                );
            }
            let certificate = self.certificates.entry(names.clone()).or_default();
            certificate.take(found);
        }
        changed
    }

    fn certificate(&mut self, names: &[String]) -> &mut Certificate {
        self.certificates.entry(names.to_vec()).or_default()
    }

    /// Asks the authority when to renew a certificate, if that is due.
    async fn ask(&mut self, names: &[String]) {
        let certificate = self.certificate(names);
        let Some((issued, stamp)) = certificate.found.clone() else {
            return;
        };
        let Some(identifier) = issued.identifier.filter(|_| now() >= certificate.asking) else {
            return;
        };
        certificate.asking = now() + ASKING.0;
        if let Err(error) = self.reach().await {
            tracing::debug!(%error, "the ACME directory was not asked when to renew");
        }
        let Some(authority) = &self.authority else {
            return;
        };
        if let Some(Suggestion { window, pause }) = authority.suggestion(&identifier).await {
            let (validity, written) = (issued.validity, stamp.written());
            let certificate = self.certificate(names);
            certificate.renewal = validity.suggested_renewal(window, written, jitter());
            certificate.asking = now() + pause.clamp(ASKING.0, ASKING.1);
        }
    }

    /// Reads the authority's directory, if there is an account and it has not been read yet.
    async fn reach(&mut self) -> Result<(), AcmeError> {
        if self.authority.is_none() {
            self.authority = Authority::known(&self.settings).await?;
        }
        Ok(())
    }

    /// Obtains a certificate, unless another instance is at it.
    async fn renew(&mut self, names: &[String]) {
        let lock = match self.settings.store.lock() {
            Ok(Some(lock)) => lock,
            Ok(None) => return,
            Err(error) => return self.failed(names, &error),
        };
        // Another instance may have been faster.
        let stamp = self.certificate(names).found.as_ref().map(|found| found.1);
        if self.settings.store.stamp(names) != stamp && self.look() {
            return (self.on_change)();
        }
        let mut obtained = self.obtain(names, &lock).await;
        for _ in 1..ATTEMPTS {
            if !matches!(&obtained, Err(error) if error.is_about_nonces) {
                break;
            }
            tracing::info!(?names, "the authority refused nonces; ordering again");
            obtained = self.obtain(names, &lock).await;
        }
        drop(lock);
        match obtained {
            Ok(()) => {
                self.status.issued();
                tracing::info!(?names, "a certificate was obtained");
                let found = self.settings.store.issued(names);
                self.certificate(names).take(found);
                (self.on_change)();
            }
            Err(error) => {
                if error.account_is_gone {
                    // The next attempt makes another one.
                    self.settings.store.forget_account();
                }
                self.failed(names, &error);
            }
        }
    }

    /// Obtains a certificate and writes it. One that was issued before, and could not be written, is written now.
    async fn obtain(&mut self, names: &[String], lock: &Lock) -> Result<(), AcmeError> {
        let is_valid = |pem: &String| {
            let issued = Issued::read(pem, names);
            issued.is_some_and(|issued| issued.validity.to > now())
        };
        let pem = match self.unwritten.remove(names).filter(is_valid) {
            Some(pem) => pem,
            None => self.order(names, lock).await?,
        };
        let kept = self.settings.store.keep(names, &pem);
        if kept.is_err() {
            self.unwritten.insert(names.to_vec(), pem);
        }
        kept
    }

    /// Orders a certificate. Returns it with its key, PEM.
    async fn order(&mut self, names: &[String], lock: &Lock) -> Result<String, AcmeError> {
        self.reach().await?;
        let authority = match self.authority.take() {
            Some(authority) => authority,
            None => Authority::register(&self.settings, lock).await?,
        };
        let certificate = self.certificate(names);
        let failures = certificate.failures;
        let found = certificate.found.as_ref();
        let replaces = found.and_then(|(issued, _)| issued.identifier.clone());
        let acme = &self.settings.acme;
        let dns = acme.dns_hook.as_deref();
        let dns = dns.map(|hook| DnsSettings { hook, delay: acme.dns_delay });
        let wanted = Wanted {
            names,
            challenges: &turned(&self.settings.acme.challenges, failures),
            dns,
            replaces,
        };
        tracing::info!(?names, "obtaining a certificate");
        let store = &self.settings.store;
        let pem = obtain(&authority.account, &wanted, store, lock).await?;
        self.authority = Some(authority);
        Ok(pem)
    }

    fn failed(&mut self, names: &[String], error: &AcmeError) {
        self.status.failed(error.failure);
        let certificate = self.certificate(names);
        certificate.failures = certificate.failures.saturating_add(1);
        let pause = retry_after(certificate.failures, jitter());
        certificate.retry = now() + pause;
        let serving = match &certificate.found {
            Some((issued, _)) if issued.validity.to > now() => "the present one stays in use",
            Some(_) => "clients refuse the present one, which has expired",
            None => "clients get a self-signed one",
        };
        tracing::error!(
            ?names, %error, next_attempt_seconds = pause, "no certificate was obtained; {serving}"
        );
    }
}

fn now() -> i64 {
    i64::try_from(clock::unix().as_secs()).unwrap_or(i64::MAX)
}

/// Returns a random number from 0 to 1.
fn jitter() -> f64 {
    let mut bytes = [0; 4];
    // Without chance, all are the earliest.
    let _ = rand_bytes(&mut bytes);
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sluicegate_config::Config;

    use super::super::keys;
    use super::*;
    use sluicegate_base::self_signed;

    #[tokio::test]
    async fn certificate_that_was_issued_is_written_later_and_not_ordered_again() {
        let folder = tempfile::tempdir().unwrap();
        // Nobody responds there.
        let text = format!(
            "[server]\nstate_dir = {:?}\n[acme]\nagree = true\ndirectory = \"https://127.0.0.1:9/dir\"\n\
             [[listener]]\nname = \"a\"\naddress = \"[::1]:1\"\ntls = {{ acme = [\"a.example\"] }}\n",
            folder.path()
        );
        let registry = sluicegate_cc::Registry::builtin();
        let config = Config::from_toml("test.toml", &text, &registry).unwrap();
        let names = ["a.example".to_owned()];
        let key = self_signed::key().unwrap();
        let made = keys::proof(&key, &names[0], &[1; 32], clock::unix()).unwrap();
        let parts = [key.private_key_to_pem_pkcs8(), made.to_pem()];
        let pem = String::from_utf8(parts.map(Result::unwrap).concat()).unwrap();
        let settings = AcmeSettings::of(&config).unwrap();
        let store = settings.store.clone();
        drop(store.lock().unwrap());
        // A folder stands in the way of the file.
        store.keep(&names, "").unwrap();
        let files = fs::read_dir(folder.path().join("acme")).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        let path = files.find(|path| path.extension().is_some_and(|end| end == "pem"));
        let path = path.unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let mut renewer = Renewer {
            settings: settings.clone(),
            status: Arc::default(),
            on_change: Box::new(|| ()),
            certificates: BTreeMap::new(),
            unwritten: [(names.to_vec(), pem.clone())].into(),
            authority: None,
        };
        renewer.renew(&names).await;
        assert_eq!(renewer.certificate(&names).failures, 1);
        assert!(renewer.unwritten.contains_key(&names[..]));
        fs::remove_dir(&path).unwrap();
        renewer.adopt(settings);
        renewer.renew(&names).await;
        assert_eq!(fs::read_to_string(&path).unwrap(), pem);
        assert!(renewer.certificate(&names).found.is_some());
        assert!(renewer.unwritten.is_empty());
    }
}
