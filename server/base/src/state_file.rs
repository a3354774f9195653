//! Files of state that outlive the process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a file, which only the server's user may read, so that a crash at any moment leaves the old one or the new one, whole.
///
/// # Errors
/// Errors of the system.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
