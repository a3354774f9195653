//! The profile that builds are optimised with: it is there, and a build that it does not fit says so in a line and goes without it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use sluicegate_tidy::repository::{read, root};
use tempfile::TempDir;

const FOLDER: &str = "server/pgo";
const NAME: &str = "x86_64-unknown-linux-gnu";
/// Most bytes of a profile: each one that is committed stays in the history.
const MAX_BYTES: u64 = 3 << 19;

/// Returns the first line of what the committed profile fits: a version of rustc.
fn compiler() -> String {
    let fits = read(Path::new(&format!("{FOLDER}/{NAME}.profdata.fits")));
    fits.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_profile_is_there_with_what_it_fits() {
    let profile = root().join(FOLDER).join(format!("{NAME}.profdata"));
    let bytes = fs::metadata(&profile).expect("there is a profile").len();
    assert!((1000..MAX_BYTES).contains(&bytes), "{bytes} bytes");
    let fits = read(Path::new(&format!("{FOLDER}/{NAME}.profdata.fits")));
    let lines: Vec<_> = fits.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("rustc 1."), "{fits}");
    assert!(lines[1].len() == "packages ".len() + 64, "{fits}");
}

#[test]
fn the_image_is_built_with_the_rust_that_the_profile_fits() {
    let compiler = compiler();
    let version = compiler.split(' ').nth(1).unwrap_or_default();
    let image = read(Path::new("deploy/Dockerfile"));
    let wanted = format!("FROM docker.io/library/rust:{version}-bookworm");
    assert!(image.contains(&wanted), "deploy/Dockerfile: {wanted}");
}

/// A checkout with a profile, and a compiler and a cargo that are scripts.
struct Checkout(TempDir);

impl Checkout {
    fn new() -> Self {
        let checkout = Self(tempfile::tempdir().expect("a folder"));
        let script = read(&Path::new(FOLDER).join("profile"));
        checkout.program("server/pgo/profile", &script);
        checkout.write("Cargo.toml", "[profile.release]\nlto = \"fat\"\n");
        checkout.compiler("1.95.0");
        checkout.program("cargo", "#!/bin/sh\necho \"0sluicegate v0.1.0 ($PWD/server) load\"\n");
        checkout.write("server/pgo/here.profdata", "counts");
        let fits = checkout.run(&["fits", "here"]).0;
        checkout.write("server/pgo/here.profdata.fits", &fits);
        checkout
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }

    fn program(&self, name: &str, text: &str) {
        self.write(name, text);
        let path = self.0.path().join(name);
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// Makes a compiler that reads profiles with counts alone.
    fn compiler(&self, version: &str) {
        let rustc = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'rustc {version} (abc)'; exit; fi\n\
             grep -qr counts used || echo 'warning: bad magic' >&2\n"
        );
        self.program("rustc", &rustc);
    }

    /// Returns standard output and standard error of the script.
    fn run(&self, arguments: &[&str]) -> (String, String) {
        let path = self.0.path();
        let made = Command::new("bash")
            .arg(path.join("server/pgo/profile"))
            .args(arguments)
            .env("RUSTC", path.join("rustc"))
            .env("CARGO", path.join("cargo"))
            .current_dir(path)
            .output()
            .expect("bash is installed");
        let [out, err] =
            [made.stdout, made.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(made.status.success(), "{err}");
        (out, err)
    }

    /// Returns the one line by which a build goes without the profile.
    fn line(&self, target: &str) -> String {
        let (flags, line) = self.run(&["flags", target, "used"]);
        assert!(flags.is_empty() && line.lines().count() == 1, "{flags}{line}");
        line
    }
}

#[test]
fn a_build_that_the_profile_fits_uses_it_without_a_word() {
    let checkout = Checkout::new();
    let (flags, line) = checkout.run(&["flags", "here", "used"]);
    assert!(flags.starts_with("-Cprofile-use=used/") && line.is_empty(), "{flags}{line}");
    // cargo builds anew only if the path is another one.
    checkout.write("server/pgo/here.profdata", "other counts");
    assert_ne!(checkout.run(&["flags", "here", "used"]).0, flags);
}

#[test]
fn a_build_that_it_does_not_fit_goes_without_it() {
    let checkout = Checkout::new();
    assert!(checkout.line("there").contains("no PGO profile for there"));
    let (_, line) = checkout.run(&["flags", "here", "used", "--features", "sluicegate/dpdk"]);
    assert!(line.contains("no PGO profile for here-dpdk"), "{line}");
    checkout.write("server/pgo/here.profdata", "");
    assert!(checkout.line("here").contains("cannot read"));
    checkout.program("cargo", "#!/bin/sh\necho '0sluicegate v0.2.0 load'\n");
    assert!(checkout.line("here").contains("other dependencies"));
    checkout.compiler("1.96.0");
    assert!(checkout.line("here").contains("for rustc 1.95.0 (abc): built without it"));
}
