//! Files, certificate and upstream that all servers share.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{CertifiedKey, generate_simple_self_signed};

/// Names and lengths of the files, bytes.
const FILES: [(&str, usize); 3] = [("1k", 1 << 10), ("10k", 10 << 10), ("1m", 1 << 20)];

/// A folder with all that the servers need.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) folder: PathBuf,
}

impl Site {
    /// Writes the files into a folder. The upstream serves the same ones below `/proxied/`.
    pub(crate) fn write(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder.join("www/proxied"))?;
        let site = Self { folder: folder.canonicalize()? };
        for (name, length) in FILES {
            let content: Vec<u8> = (b'a'..=b'z').cycle().take(length).collect();
            for folder in ["www", "www/proxied"] {
                fs::write(site.folder.join(folder).join(name), &content)?;
            }
        }
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])
                .context("a certificate")?;
        fs::write(site.certificate(), cert.pem())?;
        // HAProxy looks for the key beside the certificate.
        for key in [site.key(), site.folder.join("certificate.pem.key")] {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(key);
            file?.write_all(signing_key.serialize_pem().as_bytes())?;
        }
        Ok(site)
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }

    /// Folder of the files.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("www")
    }
}
