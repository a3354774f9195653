//! The build script refuses what it cannot be sure of, and says where.

#[path = "../../build/clock.rs"]
mod clock;
#[path = "../../build/left_out.rs"]
mod left_out;
#[path = "../../build/patch.rs"]
pub(crate) mod patch;
#[allow(
    dead_code,
    clippy::disallowed_methods,
    reason = "the build script's own, of which a part is tried here"
)]
#[path = "../../build/source.rs"]
pub(crate) mod source;

use std::fs;
use std::path::Path;

use patch::Patch;
use tempfile::TempDir;

/// Lines `1` to `9`.
const SOURCE: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/// Replaces line 5.
const PATCH: &str = "\
--- a/src/lib.rs
+++ b/src/lib.rs
@@ -2,7 +2,7 @@ fn context()
 2
 3
 4
-5
+five
 6
 7
 8
";

/// Applies a patch to a source, and returns the new text.
fn applied(patch: &str, source: &str) -> Result<String, String> {
    let root = TempDir::new().expect("folder");
    let lib = root.path().join("lib.rs");
    fs::write(&lib, source).expect("written");
    Patch::new("patches/x.patch".into(), patch.into()).apply(root.path())?;
    Ok(fs::read_to_string(lib).expect("read"))
}

fn refusal(patch: &str, source: &str) -> String {
    applied(patch, source).expect_err("refused")
}

#[test]
fn patch_that_fits_is_applied() {
    assert_eq!(applied(PATCH, SOURCE), Ok("1\n2\n3\n4\nfive\n6\n7\n8\n9\n".into()));
}

#[test]
fn two_hunks_count_the_lines_that_the_first_one_added() {
    let patch = "\
--- a/src/lib.rs
+++ b/src/lib.rs
@@ -1,3 +1,4 @@
+0
 1
 2
 3
@@ -7,3 +8,2 @@
 7
 8
-9
";
    let refused = refusal(patch, SOURCE);
    assert_eq!(
        refused,
        "patches/x.patch:8: fewer than three unchanged lines before or after the change"
    );
    let patch = patch.replace("@@ -7,3 +8,2 @@\n", "@@ -6,4 +7,3 @@\n 6\n");
    assert_eq!(applied(&patch, SOURCE), Ok("0\n1\n2\n3\n4\n5\n6\n7\n8\n".into()));
}

#[test]
fn any_line_that_differs_is_refused() {
    for line in ["2", "3", "4", "5", "6", "7", "8"] {
        let source = SOURCE.replace(line, "other");
        let at: usize = line.parse().expect("number");
        // The added line stands between the fifth and the sixth.
        let in_patch = 2 + at + usize::from(at > 5);
        assert_eq!(
            refusal(PATCH, &source),
            format!(
                "patches/x.patch:{in_patch}: src/lib.rs:{at}: found `other`, expected `{line}`"
            )
        );
    }
}

#[test]
fn offset_is_refused() {
    let moved = format!("0\n{SOURCE}");
    assert_eq!(refusal(PATCH, &moved), "patches/x.patch:4: src/lib.rs:2: found `1`, expected `2`");
    let short = SOURCE.replace("1\n", "");
    assert!(refusal(PATCH, &short).contains("src/lib.rs:2: found `3`, expected `2`"));
    let wrong = PATCH.replace("+2,7", "+3,7");
    assert_eq!(
        refusal(&wrong, SOURCE),
        "patches/x.patch:3: the new line does not follow from the old one"
    );
}

#[test]
fn hunk_without_neighbours_is_refused() {
    let patch = "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -5 +5 @@\n-5\n+five\n";
    assert_eq!(
        refusal(patch, SOURCE),
        "patches/x.patch:3: fewer than three unchanged lines before or after the change"
    );
    // Where the file has no more lines, fewer do.
    assert_eq!(applied(patch, "1\n2\n3\n4\n5\n").ok(), None);
    let whole = "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1 +1 @@\n-5\n+five\n";
    assert_eq!(applied(whole, "5\n"), Ok("five\n".into()));
}

#[test]
fn malformed_patch_is_refused() {
    let cut = PATCH.trim_end_matches(" 8\n");
    assert_eq!(refusal(cut, SOURCE), "patches/x.patch:10: the hunk is cut off");
    let long = format!("{PATCH} 9\n");
    assert_eq!(refusal(&long, SOURCE), "patches/x.patch:12: more lines than the hunk's head says");
    let other = PATCH.replace(" 6\n", "\\ No newline at end of file\n");
    assert!(refusal(&other, SOURCE).starts_with("patches/x.patch:9: "));
    let head = PATCH.replace("@@ -2,7", "@@ -x,7");
    assert!(refusal(&head, SOURCE).starts_with("patches/x.patch:3: "));
    let no_file = &PATCH["--- a/src/lib.rs\n+++ b/src/lib.rs\n".len()..];
    assert_eq!(refusal(no_file, SOURCE), "patches/x.patch:1: a hunk without a file");
    let missing = PATCH.replace("lib.rs", "gone.rs");
    assert!(refusal(&missing, SOURCE).contains("gone.rs"));
}

#[test]
fn message_before_the_changes_is_skipped() {
    let message =
        "From: A <a@example.com>\nSubject: replace a line\n\n- It is wrong.\n+++ As said.\n---\n";
    assert_eq!(applied(&format!("{message}{PATCH}"), SOURCE), applied(PATCH, SOURCE));
    // Lines count from the beginning of the file.
    let moved = format!("0\n{SOURCE}");
    assert_eq!(
        refusal(&format!("{message}{PATCH}"), &moved),
        "patches/x.patch:10: src/lib.rs:2: found `1`, expected `2`"
    );
    assert_eq!(refusal(message, SOURCE), "patches/x.patch:6: no change after the message");
}

#[test]
fn series_with_a_gap_or_a_stranger_is_refused() {
    let root = TempDir::new().expect("folder");
    let folder = |name: &str| root.path().join(name);
    for name in patch::SERIES {
        fs::create_dir(folder(name)).expect("folder");
    }
    let order = ["socket/01-b.patch", "socket/02-a.patch", "http3/01-c.patch"];
    for name in order {
        fs::write(folder(name), PATCH).expect("written");
    }
    assert_eq!(patch::series(root.path()).expect("whole").len(), 3);
    fs::write(folder("fixes/02-d.patch"), PATCH).expect("written");
    let refused = patch::series(root.path()).expect_err("a gap");
    assert!(refused.ends_with("fixes/02-d.patch: expected the name `01-….patch`"));
    fs::rename(folder("fixes/02-d.patch"), folder("fixes/01-d.txt")).expect("renamed");
    assert!(patch::series(root.path()).is_err(), "not a patch");
    fs::remove_file(folder("fixes/01-d.txt")).expect("removed");
    fs::write(folder("15-e.patch"), PATCH).expect("written");
    let refused = patch::series(root.path()).expect_err("a stranger");
    assert!(refused.ends_with("15-e.patch: not a series of patches"));
}

#[test]
fn clock_that_is_not_replaced_is_refused() {
    for (text, what) in [
        ("let t = Clock::now();", "Clock::now"),
        ("let t = Instant::\n    now();", "Instant::now"),
        ("let t = I :: now ;", "I::now"),
        ("let t = SystemTime::now();", "SystemTime::now"),
        ("let t = x.elapsed();", ".elapsed()"),
        ("let t = x\n    .elapsed()", ".elapsed()"),
    ] {
        let ours = clock::replaced(&format!("\n\n{text}"));
        let (line, found) = clock::read_left("path.rs", &ours).expect(text);
        assert!(line >= 3 && found == what, "{text}: {line}, {found}");
    }
    for text in [
        "Instant::now()",
        "std::time::Instant::now()",
        "map(time::Instant::now)",
        "pkt_space.largest_rx_pkt_time.elapsed()",
        "sender.time_sent_set_to_now()",
        "let elapsed = now - then;",
    ] {
        assert_eq!(clock::read_left("path.rs", &clock::replaced(text)), None);
    }
    // Once per trace, for its date.
    assert_eq!(clock::read_left("lib.rs", "SystemTime::now()"), None);

    let root = TempDir::new().expect("folder");
    fs::create_dir(root.path().join("h3")).expect("folder");
    fs::write(root.path().join("h3/mod.rs"), "a();\nb.elapsed();\n").expect("written");
    let refused = clock::replace(root.path()).expect_err("refused");
    assert!(refused.starts_with("src/h3/mod.rs:2: `.elapsed()`"), "{refused}");
}

#[test]
fn test_that_does_not_exist_cannot_be_left_out() {
    let root = TempDir::new().expect("folder");
    let file = root.path().join("tests.rs");
    let source = "#[test]\nfn a() {}\n\n#[rstest]\n/// What it tests.\n#[case(1)]\nfn b(x: u8) {}\n\nfn helper() {}\n";
    fs::write(&file, source).expect("written");
    left_out::remove("# comment\n\ntests.rs b: a reason\n", root.path()).expect("removed");
    assert_eq!(
        fs::read_to_string(&file).expect("read"),
        source.replace("#[rstest]", "#[cfg(any())]\n#[rstest]")
    );
    for (list, line) in [
        ("tests.rs gone: a reason", 1),
        ("# one\ntests.rs helper: a reason", 2),
        ("tests.rs a", 1),
        ("tests.rs a: ", 1),
        ("tests.rs: a reason", 1),
    ] {
        let refused = left_out::remove(list, root.path()).expect_err(list);
        let place = format!("tests/left-out.txt:{line}: ");
        assert!(refused.starts_with(&place), "{refused}");
    }
    assert!(left_out::remove("gone.rs a: a reason", Path::new(root.path())).is_err());
}
