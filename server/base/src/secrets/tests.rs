use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::root::hkdf_sha256;
use super::*;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// Writes a file that only its owner may read.
fn write_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// RFC 5869 Appendix A.1 to A.3: input, salt, info, output.
#[test]
fn hkdf_matches_the_published_vectors() {
    let range = |from: u8, to: u8| (from..=to).collect::<Vec<u8>>();
    let cases = [
        (
            vec![0x0b; 22],
            range(0x00, 0x0c),
            range(0xf0, 0xf9),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            range(0x00, 0x4f),
            range(0x60, 0xaf),
            range(0xb0, 0xff),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c\
             59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71\
             cc30c58179ec3e87c14c01d5c1f3434f1d87",
        ),
        (
            vec![0x0b; 22],
            vec![],
            vec![],
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d\
             9d201395faa4b61a96c8",
        ),
    ];
    for (ikm, salt, info, expected) in cases {
        let mut okm = vec![0; expected.len() / 2];
        hkdf_sha256(&salt, &ikm, &info, &mut okm);
        assert_eq!(okm, unhex(expected));
    }
}

#[test]
fn purposes_and_roots_give_keys_of_their_own() {
    let purposes = [
        Purpose::StatelessReset,
        Purpose::RetryToken,
        Purpose::NewToken,
        Purpose::SessionTicket,
        Purpose::KeyId,
        Purpose::QlogSampling,
        Purpose::CongestionRules,
    ];
    let keys: std::collections::HashSet<[u8; 32]> = [1, 2]
        .into_iter()
        .flat_map(|byte| purposes.map(|purpose| RootSecret::new([byte; 32]).derive(purpose)))
        .collect();
    assert_eq!(keys.len(), 14);
}

#[test]
fn a_key_file_is_read_with_comments_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    let (first, second) = ("0123456789abcdef".repeat(4), "FEDCBA9876543210".repeat(4));
    let text = format!("# rotated monthly\n\n  {first} # new\n{second}\n{first}\n");
    write_private(&path, &text);
    let config =
        SecretsConfig { key_file: Some(path), state_dir: None, ..SecretsConfig::default() };
    let secrets = Secrets::load(&config).unwrap();
    assert_eq!(secrets.roots().len(), 2, "a line told twice counts once");
    assert_eq!(secrets.current().0.to_vec(), unhex(&first));
    assert_eq!(secrets.roots()[1].0.to_vec(), unhex(&second));
    assert!(secrets.generation() < GENERATIONS);
}

#[test]
fn bad_lines_are_named_without_their_contents() {
    let path = Path::new("/etc/keys");
    let short = "ab".repeat(31) + "a";
    for (text, found) in [
        (format!("#\n{short}"), "63 characters"),
        (format!("#\n{}", "gh".repeat(32)), "a character that is no digit"),
        (format!("#\n{}", "é".repeat(64)), "a character that is no digit"),
        (format!("#\n{}", "00".repeat(32)), "the same byte throughout"),
    ] {
        let message = store::parse(&text, path).unwrap_err().to_string();
        assert!(message.starts_with(&format!("/etc/keys:2: {found}")), "{message}");
        assert!(message.contains("openssl rand -hex 32"));
        assert!(!message.contains(&text[2..]) && !message.contains('\n'));
    }
}

#[test]
fn a_key_file_holds_one_to_sixteen_secrets() {
    let path = Path::new("/etc/keys");
    let lines = |count: usize| -> String {
        (0..count).map(|n| format!("{n:02x}{}\n", "ab".repeat(31))).collect()
    };
    assert!(matches!(store::parse("# none\n", path), Err(SecretsError::Count { found: 0, .. })));
    assert_eq!(store::parse(&lines(16), path).unwrap().len(), 16);
    assert!(matches!(store::parse(&lines(17), path), Err(SecretsError::Count { found: 17, .. })));
}

#[test]
fn a_missing_or_huge_key_file_is_an_error_of_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let huge = dir.path().join("huge");
    fs::write(&huge, "#".repeat(70_000)).unwrap();
    for path in [missing, huge] {
        let config = SecretsConfig {
            key_file: Some(path.clone()),
            state_dir: None,
            ..SecretsConfig::default()
        };
        let message = Secrets::load(&config).unwrap_err().to_string();
        assert!(message.contains(&path.display().to_string()));
        assert!(!message.contains('\n'));
    }
}

#[test]
fn a_state_directory_keeps_the_root_and_counts_generations() {
    let dir = tempfile::tempdir().unwrap();
    let config = SecretsConfig {
        key_file: None,
        state_dir: Some(dir.path().join("a/b")),
        ..SecretsConfig::default()
    };
    let first = Secrets::load(&config).unwrap();
    for step in 1..=130u8 {
        let next = Secrets::load(&config).unwrap();
        assert_eq!(next.current(), first.current());
        assert_eq!(next.generation(), (first.generation() + step) % GENERATIONS);
    }
    let file = dir.path().join("a/b/secrets");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let names = fs::read_dir(dir.path().join("a/b")).unwrap().count();
    assert_eq!(names, 4, "secrets, generation, tickets and lock, no draft left");
}

#[test]
fn a_key_file_beats_the_state_directory_which_still_counts() {
    let dir = tempfile::tempdir().unwrap();
    let key_file = dir.path().join("keys");
    write_private(&key_file, &"0123456789abcdef".repeat(4));
    let config = SecretsConfig {
        key_file: Some(key_file),
        state_dir: Some(dir.path().join("state")),
        ..SecretsConfig::default()
    };
    let first = Secrets::load(&config).unwrap();
    let second = Secrets::load(&config).unwrap();
    assert_eq!(second.generation(), (first.generation() + 1) % GENERATIONS);
    assert_eq!(first.current(), second.current());
    assert!(!dir.path().join("state/secrets").exists());
}

#[test]
fn damage_to_secrets_is_fatal_and_to_the_generation_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let config = SecretsConfig {
        key_file: None,
        state_dir: Some(dir.path().to_owned()),
        ..SecretsConfig::default()
    };
    let before = Secrets::load(&config).unwrap();
    for damaged in ["", "300", "-1", "sixty"] {
        fs::write(dir.path().join("generation"), damaged).unwrap();
        let after = Secrets::load(&config).unwrap();
        assert!(after.generation() < GENERATIONS);
        assert_eq!(after.current(), before.current());
    }
    fs::write(dir.path().join("secrets"), "not a secret\n").unwrap();
    assert!(matches!(Secrets::load(&config), Err(SecretsError::Line { line: 1, .. })));
    let kept = fs::read_to_string(dir.path().join("secrets")).unwrap();
    assert_eq!(kept, "not a secret\n");
}

#[test]
fn starts_at_the_same_time_agree_on_the_root_and_differ_in_generation() {
    let dir = tempfile::tempdir().unwrap();
    let config = SecretsConfig {
        key_file: None,
        state_dir: Some(dir.path().to_owned()),
        ..SecretsConfig::default()
    };
    let loaded: Vec<Secrets> = std::thread::scope(|scope| {
        let starts: Vec<_> =
            (0..8).map(|_| scope.spawn(|| Secrets::load(&config).unwrap())).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let generations: std::collections::HashSet<u8> =
        loaded.iter().map(Secrets::generation).collect();
    assert_eq!(generations.len(), 8);
    assert!(loaded.iter().all(|secrets| secrets.current() == loaded[0].current()));
}

#[test]
fn files_that_others_may_read_are_refused_unless_that_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let (shared, own) = (dir.path().join("shared"), dir.path().join("state/secrets"));
    fs::create_dir(dir.path().join("state")).unwrap();
    for path in [shared.clone(), own] {
        fs::write(&path, "0123456789abcdef".repeat(4)).unwrap();
        let is_shared = path == shared;
        let config = |accept_open| SecretsConfig {
            key_file: is_shared.then(|| path.clone()),
            state_dir: (!is_shared).then(|| dir.path().join("state")),
            accept_open,
        };
        for (mode, is_refused) in [(0o644, true), (0o660, true), (0o640, false), (0o600, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let loaded = Secrets::load(&config(false));
            assert_eq!(loaded.is_err(), is_refused, "{mode:o} {}", path.display());
            if let Err(error) = loaded {
                let text = error.to_string();
                assert!(
                    text.contains("chmod 600") && text.contains(&format!("{mode:o}")),
                    "{text}"
                );
            }
            assert!(Secrets::load(&config(true)).is_ok(), "{mode:o}");
        }
    }
}

#[test]
fn debug_output_holds_no_secret() {
    let secrets =
        Secrets::from_roots(vec![RootSecret::new([0xa5; 32])], 70, Path::new("t")).unwrap();
    let text = format!("{secrets:?}");
    assert!(!text.contains("165") && !text.contains("a5"), "{text}");
    assert_eq!(secrets.generation(), 6);
}

#[test]
fn ticket_keys_of_a_state_directory_outlive_the_process_and_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        SecretsConfig { state_dir: Some(dir.path().to_owned()), ..SecretsConfig::default() };
    let hour = std::time::Duration::from_secs(3600);
    let first = Secrets::load(&config).unwrap();
    // Another process that starts at the same time.
    let beside = Secrets::load(&config).unwrap();
    for secrets in [&first, &beside] {
        secrets.ticket_keys().set_lifetime(hour);
        secrets.keep_ticket_keys();
    }
    let second = Secrets::load(&config).unwrap();
    second.ticket_keys().set_lifetime(hour);
    let sealed = first.ticket_keys().sealing("main");
    for secrets in [&beside, &second] {
        assert!(secrets.ticket_keys().opening("main", &sealed.name).is_some());
    }
    let file = dir.path().join("tickets");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // Damage costs the tickets, and nothing else.
    write_private(&file, "damaged");
    let third = Secrets::load(&config).unwrap();
    assert!(third.ticket_keys().opening("main", &sealed.name).is_none());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Secrets::load(&config).is_err());
}

#[test]
fn each_start_has_nonces_of_its_own_under_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let config = SecretsConfig {
        state_dir: Some(dir.path().to_owned()),
        accept_open: true,
        ..SecretsConfig::default()
    };
    let secrets = Secrets::load(&config).unwrap();
    let take = |key: &[u8], len| {
        let nonces = secrets.take_nonces(key, len)?;
        let first = NonceSource::new(&Arc::new(nonces)).next_nonce().unwrap();
        Ok::<_, SecretsError>(u128::from_be_bytes(first))
    };
    let first = take(b"one", 4).unwrap();
    let other = take(b"two", 4).unwrap();
    assert_eq!(take(b"one", 4).unwrap(), first.wrapping_add(1 << 24));
    assert_eq!(take(b"two", 4).unwrap(), other.wrapping_add(1 << 24));
    assert_ne!(take(b"one", 8).unwrap(), first);
    let path = dir.path().join("nonces");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(!text.contains("one"));
    for _ in 2..256 {
        take(b"one", 4).unwrap();
    }
    let error = take(b"one", 4).unwrap_err().to_string();
    assert!(error.contains("every nonce") && error.contains("a new key"), "{error}");
    assert!(take(b"two", 4).is_ok());
    for damaged in ["x", "a b c", "00 00", &text.replace(" 1\n", " \n")] {
        fs::write(&path, damaged).unwrap();
        let error = take(b"two", 4).unwrap_err().to_string();
        assert!(error.contains("nonces:") && error.contains("no record"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged, "a damaged file stays");
    }
}

#[test]
fn long_nonces_do_without_a_file_that_cannot_be_stored() {
    let dir = tempfile::tempdir().unwrap();
    let config = SecretsConfig {
        state_dir: Some(dir.path().to_owned()),
        accept_open: true,
        ..SecretsConfig::default()
    };
    let secrets = Secrets::load(&config).unwrap();
    fs::create_dir(dir.path().join("nonces")).unwrap();
    assert!(secrets.take_nonces(b"one", 8).is_ok());
    assert!(matches!(secrets.take_nonces(b"one", 7), Err(SecretsError::Io { .. })));
}

#[test]
fn the_file_of_nonces_forgets_the_oldest_keys() {
    let dir = tempfile::tempdir().unwrap();
    let config = SecretsConfig {
        state_dir: Some(dir.path().to_owned()),
        accept_open: true,
        ..SecretsConfig::default()
    };
    let secrets = Secrets::load(&config).unwrap();
    for key in 0..260_u16 {
        secrets.take_nonces(&key.to_be_bytes(), 8).unwrap();
    }
    let text = fs::read_to_string(dir.path().join("nonces")).unwrap();
    assert_eq!(text.lines().count(), 256);
}
