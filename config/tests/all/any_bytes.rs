//! Any bytes in a file give a configuration, or an error with a place inside the file.

mod properties;

use proptest::prelude::*;
use sluicegate_cc::Registry;
use sluicegate_config::Config;

use properties::check;

const EXAMPLE: &str = include_str!("../../example.toml");

/// Returns the example without its prose: small, and each line is a target.
fn active() -> String {
    let lines = EXAMPLE.lines().map(|l| l.strip_prefix("# e.g. ").unwrap_or(l));
    let lines = lines.map(|l| l.strip_prefix('#').unwrap_or(l)).filter(|l| !l.starts_with(' '));
    lines.filter(|l| !l.is_empty()).map(|l| format!("{l}\n")).collect()
}

/// Checks `text` inside a property.
fn holds(text: &str) -> Result<(), TestCaseError> {
    check(text).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        holds(&text)?;
    }

    #[test]
    fn any_bytes_in_a_file(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &bytes).expect("written");
        let refused = Config::load(file.path(), &Registry::builtin()).is_err();
        prop_assert!(refused, "200 random bytes hold no listener");
    }

    #[test]
    fn example_with_bytes_changed(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<char>()), 1..4),
    ) {
        let mut text: Vec<char> = EXAMPLE.chars().collect();
        for (at, new) in changes {
            let at = at.index(text.len());
            text[at] = new;
        }
        holds(&text.into_iter().collect::<String>())?;
    }

    #[test]
    fn example_with_a_value_replaced(
        line in any::<prop::sample::Index>(),
        value in prop_oneof![
            Just("[[[[[[]]]]]]".to_owned()),
            Just("{ a = { b = {} } }".to_owned()),
            Just("-9223372036854775808".to_owned()),
            Just("99999999999999999999999999".to_owned()),
            Just("-inf".to_owned()),
            Just("\"\\u0000\"".to_owned()),
            any::<u64>().prop_map(|n| n.to_string()),
            any::<f64>().prop_map(|x| format!("{x:?}")),
            "[0-9a-zA-Z:/,-]{0,12}".prop_map(|s| format!("\"{s}\"")),
            "[0-9]{1,25}[a-zA-Z]{1,3}".prop_map(|s| format!("\"{s}\"")),
        ],
    ) {
        let minimal: Vec<&str> = EXAMPLE.lines().filter(|l| !l.starts_with("# ")).collect();
        let keys: Vec<usize> = (0..minimal.len()).filter(|i| minimal[*i].contains(" = ")).collect();
        let target = keys[line.index(keys.len())];
        let key = minimal[target].trim_start_matches('#').split(" = ").next().unwrap_or_default();
        let changed = format!("{key} = {value}");
        let text: Vec<&str> =
            minimal.iter().enumerate().map(|(i, l)| if i == target { &changed } else { *l }).collect();
        holds(&text.join("\n"))?;
    }

    #[test]
    fn example_cut_short(at in any::<prop::sample::Index>()) {
        let text = active();
        let cut: String = text.chars().take(at.index(text.len())).collect();
        holds(&cut)?;
    }
}

#[test]
fn deep_nesting_is_refused() {
    for text in ["a=".to_owned() + &"[".repeat(100_000), "a=".to_owned() + &"{a=".repeat(100_000)] {
        check(&text).expect("refused in words");
    }
}
