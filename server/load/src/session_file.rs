//! The file that a run takes a session from, and stores the first new one in.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, bail};
use sluicegate_quic_client::{SavedSession, Unusable};

/// The file of `--tls-session-file`.
pub(crate) struct SessionFile {
    path: PathBuf,
    file: File,
    /// Session that it had, if that can be resumed.
    pub(crate) session: Option<Arc<SavedSession>>,
    /// Warning about what it had.
    pub(crate) warning: Option<String>,
    /// First session that the server has sent.
    pub(crate) first: Arc<OnceLock<Arc<SavedSession>>>,
}

impl SessionFile {
    /// Opens and reads the file, or makes an empty one that only its owner can read: a session is a secret.
    ///
    /// # Errors
    /// It cannot be read and written, or has something else, which would be lost.
    pub(crate) fn open(path: &Path) -> anyhow::Result<SessionFile> {
        let name = path.display();
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o600).open(path);
        let mut file = file.with_context(|| format!("cannot read and write {name}"))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(|| format!("cannot read {name}"))?;
        let text = String::from_utf8_lossy(&text);
        let (mut session, mut warning) = (None, None);
        if !text.trim().is_empty() {
            match SavedSession::from_pem(&text) {
                Ok(found) => session = Some(Arc::new(found)),
                Err(Unusable::NoSession) => bail!(
                    "{name} has no TLS session, and a new one would replace what it has; name another file"
                ),
                Err(Unusable::Unreadable) => {
                    warning = Some(format!(
                        "the TLS session in {name} is broken or of another TLS library: it is not resumed, and a new one replaces it"
                    ));
                }
                Err(Unusable::UnreadableParams) => {
                    warning = Some(format!(
                        "the QUIC transport parameters of the session in {name} are broken: it is not resumed, and a new one replaces it"
                    ));
                }
            }
        }
        Ok(SessionFile { path: path.to_owned(), file, session, warning, first: Arc::default() })
    }

    /// Replaces what the file has by the first new session, if there is one.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn store(&self) -> Result<(), String> {
        let Some(session) = self.first.get() else {
            return Ok(());
        };
        let written = self.replace(&session.pem());
        written.map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn path(name: &str) -> PathBuf {
        let name = format!("sluicegate-session-{name}-{}", std::process::id());
        std::env::temp_dir().join(name)
    }

    #[test]
    fn the_first_session_is_stored_and_read_again() {
        let path = path("first");
        let file = SessionFile::open(&path).unwrap();
        assert!(file.session.is_none() && file.warning.is_none());
        file.store().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        let session =
            SavedSession::from_pem(include_str!("../../quic-client/src/session/h2load.pem"))
                .unwrap();
        file.first.set(Arc::new(session.clone())).unwrap();
        file.store().unwrap();
        let again = SessionFile::open(&path).unwrap();
        assert_eq!(again.session.as_deref(), Some(&session));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_in_a_file_is_replaced_only_if_it_is_a_session() {
        let path = path("other");
        let name = path.display().to_string();
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\n").unwrap();
        let error = SessionFile::open(&path).map(drop).unwrap_err().to_string();
        assert!(error.contains(&name), "{error}");
        let of_params = concat!(
            include_str!("../../quic-client/src/session/h2load.pem"),
            "-----BEGIN QUIC TRANSPORT PARAMETERS-----\nAw==\n-----END QUIC TRANSPORT PARAMETERS-----\n"
        );
        for (broken, part) in [
            ("-----BEGIN SSL SESSION PARAMETERS-----\nMAMCAQE=\n", "the TLS session in "),
            (of_params, "the QUIC transport parameters of the session in "),
        ] {
            std::fs::write(&path, broken).unwrap();
            let file = SessionFile::open(&path).unwrap();
            assert!(file.session.is_none());
            let warning = file.warning.unwrap();
            assert!(warning.contains(&format!("{part}{name}")), "{warning}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = SessionFile::open(Path::new("/nowhere/session"));
        let error = error.map(drop).unwrap_err().to_string();
        assert_eq!(error, "cannot read and write /nowhere/session");
    }
}
