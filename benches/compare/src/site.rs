//! Files, certificates and upstream that all servers share.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rcgen::{CertificateParams, KeyPair};

/// Names and lengths of the files, bytes.
const FILES: [(&str, usize); 3] = [("1k", 1 << 10), ("10k", 10 << 10), ("1m", 1 << 20)];

/// Folders of the files: of servers, and of the upstream by the ways to it.
const FOLDERS: [&str; 4] = ["www", "www/proxied", "www/unix", "www/h2c"];

/// Kind of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// ECDSA with P-256.
    Ecdsa,
    /// RSA of 2048 bits.
    Rsa,
}

impl Key {
    /// Returns the name of the certificate's file; HAProxy looks for the key beside it.
    fn file(self) -> &'static str {
        match self {
            Self::Ecdsa => "certificate.pem",
            Self::Rsa => "certificate-rsa.pem",
        }
    }

    /// Makes a key.
    fn generate(self) -> Result<KeyPair> {
        match self {
            Self::Ecdsa => KeyPair::generate().context("a key"),
            Self::Rsa => {
                let made = Command::new("openssl").args(["genrsa", "2048"]).output();
                let made = made.context("openssl, which makes the RSA key, does not start")?;
                ensure!(made.status.success(), "openssl genrsa 2048 ends with {}", made.status);
                let pem = String::from_utf8(made.stdout).context("a key of openssl")?;
                KeyPair::from_pem(&pem).context("a key of openssl")
            }
        }
    }
}

/// A folder with all that the servers need.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) folder: PathBuf,
}

impl Site {
    /// Writes the files into a folder. The upstream serves the same ones below `/proxied/`, `/unix/` and `/h2c/`.
    pub(crate) fn write(folder: &Path) -> Result<Self> {
        for place in FOLDERS {
            fs::create_dir_all(folder.join(place))?;
        }
        let site = Self { folder: folder.canonicalize()? };
        for (name, length) in FILES {
            let content: Vec<u8> = (b'a'..=b'z').cycle().take(length).collect();
            for folder in FOLDERS {
                fs::write(site.folder.join(folder).join(name), &content)?;
            }
        }
        site.certify(Key::Ecdsa)?;
        Ok(site)
    }

    /// Makes a certificate.
    pub(crate) fn certify(&self, key: Key) -> Result<()> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let parameters = CertificateParams::new(names).context("a certificate")?;
        let pair = key.generate()?;
        let certificate = parameters.self_signed(&pair).context("a certificate")?;
        fs::write(self.certificate(key), certificate.pem())?;
        let mut file = OpenOptions::new();
        let file = file.write(true).create_new(true).mode(0o600).open(self.key(key));
        file?.write_all(pair.serialize_pem().as_bytes())?;
        Ok(())
    }

    pub(crate) fn certificate(&self, key: Key) -> PathBuf {
        self.folder.join(key.file())
    }

    pub(crate) fn key(&self, key: Key) -> PathBuf {
        self.folder.join(format!("{}.key", key.file()))
    }

    /// Unix socket of the upstream.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("upstream.socket")
    }

    /// Folder of the files.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("www")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_key_has_its_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::write(folder.path()).unwrap();
        for (key, length) in [(Key::Ecdsa, 1), (Key::Rsa, 1000)] {
            if key == Key::Rsa && site.certify(key).is_err() {
                eprintln!("skipped: there is no openssl");
                continue;
            }
            let read = |file: PathBuf| fs::read_to_string(file).unwrap();
            assert!(read(site.certificate(key)).starts_with("-----BEGIN CERTIFICATE-----"));
            assert!(read(site.key(key)).len() > length);
        }
        assert_ne!(site.key(Key::Ecdsa), site.key(Key::Rsa));
    }
}
