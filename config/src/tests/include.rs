//! Files that a configuration includes, and variables in its values.

use std::fs;

use sluicegate_cc::Registry;

use crate::{Config, Step, locate};

const LISTENER: &str = "[[listener]]\nname = \"a\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";

/// Writes files into a folder, the first of which is the configuration, and reads that.
fn load(files: &[(&str, &str)]) -> (tempfile::TempDir, Result<Config, String>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let read = Config::load(&folder.path().join(files[0].0), &Registry::builtin());
    let prefix = format!("{}/", folder.path().display());
    let read = read.map_err(|error| error.to_string().replace(&prefix, ""));
    (folder, read)
}

#[test]
fn tables_of_included_files_stand_behind_those_of_the_file_in_the_order_of_names() {
    let main = format!(
        "include = [\"sites/*.toml\", \"more.toml\"]\n{LISTENER}[[route]]\npath = \"/\"\nfixed = {{}}\n"
    );
    let route = |path: &str| format!("# a comment\n\n[[route]]\npath = \"{path}\"\nfixed = {{}}");
    let (folder, read) = load(&[
        ("edge.toml", &main),
        ("sites/b.toml", &route("/b")),
        ("sites/a.toml", &route("/a")),
        ("sites/.hidden.toml", "not TOML"),
        ("sites/other.txt", "not TOML"),
        ("more.toml", "\u{feff}[limits]\nmax_request_body = \"1MiB\"\n"),
    ]);
    let config = read.unwrap();
    let paths: Vec<_> = config.routes.iter().map(crate::Route::label).collect();
    assert_eq!(paths, ["/", "/a", "/b"]);
    assert_eq!(config.limits.max_request_body, 1 << 20);
    let printed = config.to_toml();
    let read_back = Config::from_toml("printed.toml", &printed, &Registry::builtin()).unwrap();
    assert_eq!(read_back.routes, config.routes);
    let place = locate(
        &folder.path().join("edge.toml"),
        &[Step::Key("route"), Step::Index(2), Step::Key("path")],
    );
    let place = place.unwrap();
    assert!(place.file.ends_with("sites/b.toml"), "{}", place.file);
    assert_eq!((place.position.line, place.position.column), (4, 8));
}

#[test]
fn mistakes_name_the_included_file_and_its_line() {
    let main = format!("include = \"sites/*.toml\"\n{LISTENER}[limits]\n");
    for (text, start) in [
        (
            "[[route]]\npath = \"/\"\nfixd = {}\n",
            "sites/a.toml:3:1: unknown key `fixd` in [[route]]",
        ),
        ("[[route]]\npath = \n", "sites/a.toml:2:"),
        ("\n# x\n path = \"/\"\n", "sites/a.toml:3:2: a key at the beginning of an included file"),
        ("[route.fixed]\n", "sites/a.toml:1:2: a part of [[route]] without its header"),
        ("[limits]\n", "sites/a.toml:1:"),
        (
            "[[listener]]\nname = \"a\"\naddress = \"[::1]:2\"\ntls = \"self-signed\"\n",
            "sites/a.toml:2:8: listener \"a\" again, first in edge.toml:3; expected",
        ),
        ("include = \"x\"\n", "sites/a.toml:1:1: a key at the beginning"),
        (
            "[[route]]\npath = \"/\"\nsite = \"x\"\nfixed = {}\n",
            "sites/a.toml:3:8: no [[site]] is named",
        ),
    ] {
        let (_folder, read) = load(&[("edge.toml", &main), ("sites/a.toml", text)]);
        let error = read.unwrap_err();
        assert!(error.starts_with(start), "{text:?}: {error}");
    }
}

#[test]
fn what_cannot_be_included_is_named_where_the_pattern_stands() {
    for (include, start) in [
        ("\"none.toml\"", "none.toml: cannot be read: No such file"),
        ("\"**/*.toml\"", "edge.toml:1:11: \"**/*.toml\" for `include`"),
        ("\"[a.toml\"", "edge.toml:1:11: \"[a.toml\" for `include`: "),
        (
            "\"{env.SLUICEGATE_TEST_UNSET}/*\"",
            "edge.toml:1:11: the environment variable SLUICEGATE_TEST_UNSET is not set",
        ),
        ("7", "edge.toml:1:11: integer 7 for `include`"),
        ("\"folder*\"", "folder: cannot be read: "),
        ("\"fo*/a.toml\"", "folder/a.toml:1:1: byte 0xff is not UTF-8"),
    ] {
        let main = format!("include = {include}\n{LISTENER}");
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        fs::write(folder.path().join("folder/a.toml"), b"\xff").unwrap();
        let file = folder.path().join("edge.toml");
        fs::write(&file, main).unwrap();
        let error = Config::load(&file, &Registry::builtin()).unwrap_err().to_string();
        let error = error.replace(&format!("{}/", folder.path().display()), "");
        assert!(error.starts_with(start), "{include}: {error}");
    }
    let main = format!("include = \"none/*.toml\"\n{LISTENER}");
    assert!(load(&[("edge.toml", &main)]).1.is_ok(), "no file matches, as yet");
    let main = format!("include = \"*.toml\"\n{LISTENER}");
    assert!(load(&[("edge.toml", &main)]).1.is_ok(), "the file itself is not read twice");
}

#[test]
fn a_pipe_is_not_included_by_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edge.toml");
    fs::write(&file, format!("include = \"/dev/null\"\n{LISTENER}")).unwrap();
    let error = Config::load_again(&file, &Registry::builtin()).unwrap_err().to_string();
    assert!(error.starts_with("/dev/null: cannot be read: not a regular file"), "{error}");
}

#[test]
fn a_variable_that_is_not_set_is_named_with_its_line() {
    let text = format!(
        "{LISTENER}[[route]]\npath = \"/\"\nproxy = {{ upstreams = [\"a:1\", \"{{env.SLUICEGATE_TEST_UNSET}}\"] }}\n"
    );
    let error = Config::from_toml("edge.toml", &text, &Registry::builtin()).unwrap_err();
    let expected =
        "edge.toml:7:31: the environment variable SLUICEGATE_TEST_UNSET is not set; expected";
    assert!(error.to_string().starts_with(expected), "{error}");
    let with_default = text.replace("UNSET}", "UNSET:-b:2}");
    let config = Config::from_toml("edge.toml", &with_default, &Registry::builtin()).unwrap();
    assert!(config.to_toml().contains("b:2"));
}
