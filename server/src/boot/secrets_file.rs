//! The file of secrets that instances share, which a service manager or Kubernetes replaces while the server runs.

use std::time::{Duration, Instant};

use sluicegate_base::secrets::{RootSecret, Secrets, SecretsError};

/// Time between two looks. The file is small, and not every file system tells when it changes.
const PERIOD: Duration = Duration::from_secs(30);

/// Time for which a changed file must stay unchanged before it is used: its writer may not have finished.
const REST: Duration = Duration::from_secs(2);

/// Reads the file again. Returns the secrets if they differ from those in effect.
///
/// # Errors
/// The file cannot be used.
pub(super) fn read_changed(in_effect: &Secrets) -> Result<Option<Secrets>, SecretsError> {
    let read = in_effect.read_again()?;
    Ok((read.roots() != in_effect.roots()).then_some(read))
}

/// Says when the file has other secrets than those in effect.
pub(super) struct SecretsFile {
    next: Instant,
    /// Secrets that the last look has found for the first time.
    seen: Vec<RootSecret>,
    /// Error of the last look, which is logged once.
    wrong: Option<String>,
}

impl SecretsFile {
    /// Looks for the first time a period after `now`.
    pub(super) fn new(now: Instant) -> SecretsFile {
        SecretsFile { next: now + PERIOD, seen: Vec::new(), wrong: None }
    }

    /// Returns the time of the next look.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Returns the secrets of the file if they differ from those in effect, and two looks have found them. A file that is wrong changes
    /// nothing.
    pub(super) fn changed(&mut self, in_effect: &Secrets, now: Instant) -> Option<Secrets> {
        if now < self.next {
            return None;
        }
        self.next = now + PERIOD;
        let read = read_changed(in_effect);
        let wrong = read.as_ref().err().map(SecretsError::to_string);
        if let Some(error) = wrong.as_deref().filter(|_| wrong != self.wrong) {
            tracing::warn!(
                error,
                "the file of secrets cannot be used; those read before stay in effect"
            );
        }
        self.wrong = wrong;
        let changed = read.ok().flatten()?;
        if changed.roots() != self.seen {
            self.seen = changed.roots().to_vec();
            self.next = now + REST;
            return None;
        }
        self.seen.clear();
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use sluicegate_base::clock;
    use sluicegate_base::secrets::SecretsConfig;

    use super::*;

    #[test]
    fn a_changed_file_is_seen_within_a_period_and_a_wrong_one_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets");
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        let secret = |from| (from..from + 32).map(|byte| format!("{byte:02x}")).collect::<String>();
        let (first, second) = (secret(0), secret(32));
        write(&first);
        let config = SecretsConfig { key_file: Some(path.clone()), ..SecretsConfig::default() };
        let secrets = Secrets::load(&config).unwrap();
        let begin = clock::now();
        let mut file = SecretsFile::new(begin);
        write(&format!("{second}\n{first}\n"));
        assert!(file.changed(&secrets, begin).is_none());
        // It may be half written.
        assert!(file.changed(&secrets, begin + PERIOD).is_none());
        write(&format!("{first}\n{second}\n"));
        assert!(file.changed(&secrets, begin + PERIOD + REST).is_none());
        assert_eq!(file.next(), begin + PERIOD + 2 * REST);
        write(&format!("{second}\n{first}\n"));
        assert!(file.changed(&secrets, file.next()).is_none());
        let begin = file.next() - PERIOD;
        let changed = file.changed(&secrets, file.next()).unwrap();
        assert_eq!(changed.roots().len(), 2);
        assert_eq!(changed.roots()[1], secrets.roots()[0]);
        assert_eq!(changed.generation(), secrets.generation());
        assert!(file.changed(&secrets, begin + PERIOD * 3 / 2).is_none());
        write("nonsense");
        assert!(file.changed(&secrets, begin + 2 * PERIOD).is_none());
        assert!(file.wrong.as_deref().unwrap().contains(":1: "), "{:?}", file.wrong);
        write(&first);
        assert!(file.changed(&secrets, begin + 3 * PERIOD).is_none());
        assert!(file.wrong.is_none());
    }
}
