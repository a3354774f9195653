//! What the HTTP/3 servers written for a comparison share: their arguments, their files, and the versions of their libraries.

use std::env;
use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Largest piece of a body that is read at a time, bytes.
const PIECE: u64 = 64 << 10;

/// Streams that a client may have open on a connection.
pub const STREAMS: u32 = 128;

/// The arguments of a server.
#[derive(Debug)]
pub struct Arguments {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Folder of the files.
    pub root: PathBuf,
    /// File with the certificate, PEM.
    pub certificate: PathBuf,
    /// File with its key, PEM.
    pub key: PathBuf,
}

impl Arguments {
    /// Reads the command line; None for `--version`, after the versions of these packages are printed.
    ///
    /// # Errors
    ///
    /// The arguments are not `ADDRESS ROOT CERTIFICATE KEY`.
    pub fn read(packages: &[&str]) -> Result<Option<Self>> {
        let words: Vec<String> = env::args().skip(1).collect();
        if words == ["--version"] {
            println!("{}", versions(packages)?);
            return Ok(None);
        }
        Self::parse(&words).map(Some)
    }

    fn parse(words: &[String]) -> Result<Self> {
        let [address, root, certificate, key] = words else {
            bail!("expected ADDRESS ROOT CERTIFICATE KEY, or --version");
        };
        let address = address.parse();
        Ok(Self {
            address: address.with_context(|| format!("`{}` is no IP:PORT", words[0]))?,
            root: root.into(),
            certificate: certificate.into(),
            key: key.into(),
        })
    }
}

/// Returns names and versions of packages, as they were built.
fn versions(packages: &[&str]) -> Result<String> {
    let lock = include_str!("../Cargo.lock");
    let version = |package: &&str| {
        let start = format!("name = \"{package}\"\nversion = \"");
        let rest = lock.split_once(&start).map(|(_, rest)| rest);
        let version = rest.and_then(|rest| rest.split('"').next());
        let version = version.with_context(|| format!("Cargo.lock has no {package}"))?;
        Ok(format!("{package} {version}"))
    };
    let versions: Result<Vec<String>> = packages.iter().map(version).collect();
    Ok(versions?.join(", "))
}

/// A file that is sent.
#[derive(Debug)]
pub struct Body {
    file: File,
    /// Bytes that are left.
    left: u64,
}

impl Body {
    /// Opens the file of a request's path; None if there is no such file below the root.
    #[must_use]
    pub fn open(root: &Path, path: &str) -> Option<Self> {
        let path = Path::new(path.split('?').next()?.strip_prefix('/')?);
        let inside = |part| matches!(part, Component::Normal(_));
        if !path.components().all(inside) {
            return None;
        }
        let file = File::open(root.join(path)).ok()?;
        let metadata = file.metadata().ok()?;
        metadata.is_file().then_some(Self { file, left: metadata.len() })
    }

    /// Returns the number of bytes that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Reads the next piece, which is empty after the last one.
    ///
    /// The thread waits: the kernel has these files in its memory, and a change of threads takes longer.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has become shorter.
    pub fn next(&mut self) -> Result<Vec<u8>> {
        let length = self.left.min(PIECE);
        let mut piece = Vec::with_capacity(usize::try_from(length)?);
        let read = (&self.file).take(length).read_to_end(&mut piece)?;
        if (read as u64) < length {
            bail!("a file has become shorter");
        }
        self.left -= length;
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn four_arguments_are_read() {
        let words = ["127.0.0.1:1", "/w", "/c", "/k"].map(str::to_owned);
        let arguments = Arguments::parse(&words).unwrap();
        assert_eq!(arguments.address.port(), 1);
        assert_eq!(arguments.root, Path::new("/w"));
        assert!(Arguments::parse(&words[1..]).is_err());
        let error = Arguments::parse(&["x", "", "", ""].map(str::to_owned));
        assert!(format!("{:#}", error.unwrap_err()).contains("`x`"));
    }

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let found = versions(&["anyhow", "quinn", "tokio-quiche"]).unwrap();
        assert!(found.starts_with("anyhow 1."), "{found}");
        assert!(versions(&["no-such-package"]).is_err());
    }

    #[test]
    fn files_below_the_root_are_read_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("www");
        fs::create_dir_all(root.join("a")).unwrap();
        fs::write(root.join("a/b"), vec![7; 100_000]).unwrap();
        fs::write(folder.path().join("secret"), "").unwrap();
        let mut body = Body::open(&root, "/a/b?query").unwrap();
        assert_eq!(body.left(), 100_000);
        let lengths = [0; 3].map(|_| body.next().unwrap().len());
        assert_eq!(lengths, [65_536, 34_464, 0]);
        for path in ["", "/", "/a", "/c", "/../secret", "//etc/passwd", "a/b"] {
            assert!(Body::open(&root, path).is_none(), "{path}");
        }
    }
}
