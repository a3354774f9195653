//! The catalogue of attacks and faults: each case says what must happen, and names the tests that try it.

/// Defects of the catalogue: cases that are not in its form, and tests that `exists`, given file and function, does not know.
#[must_use]
pub fn defects(catalogue: &str, exists: impl Fn(&str, &str) -> bool) -> Vec<String> {
    cases(catalogue).into_iter().flat_map(|case| case.defects(&exists)).collect()
}

/// Number of tests that the catalogue names.
#[must_use]
pub fn tests(catalogue: &str) -> usize {
    let items = cases(catalogue).into_iter().flat_map(|case| case.items);
    items.filter(|item| item.starts_with("Test: ")).count()
}

/// A case: its heading and the items of its list.
struct Case {
    name: String,
    items: Vec<String>,
    /// Lines that belong to no item.
    others: Vec<String>,
}

fn cases(catalogue: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut in_case = false;
    for line in catalogue.lines() {
        if let Some(name) = line.strip_prefix("### ") {
            in_case = true;
            cases.push(Case { name: name.to_owned(), items: Vec::new(), others: Vec::new() });
        } else if line.starts_with("## ") {
            in_case = false;
        }
        let Some(case) = cases.last_mut().filter(|_| in_case) else {
            continue;
        };
        if let Some(item) = line.strip_prefix("- ") {
            case.items.push(item.to_owned());
        } else if let (Some(rest), Some(item)) = (line.strip_prefix("  "), case.items.last_mut()) {
            *item = format!("{item} {rest}");
        } else if !line.is_empty() && !line.starts_with("### ") {
            case.others.push(line.to_owned());
        }
    }
    cases
}

impl Case {
    fn defects(&self, exists: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let name = &self.name;
        let mut defects = Vec::new();
        for line in &self.others {
            defects.push(format!("{name}: not an item of the list: {line}"));
        }
        let (mut outcomes, mut tests) = (0, 0);
        for item in &self.items {
            match item.split_once(": ") {
                Some(("Input" | "Source" | "Fuzz target", _)) => {}
                Some(("Outcome", _)) => outcomes += 1,
                Some(("Test", test)) => {
                    tests += 1;
                    if !is_known(test, &exists) {
                        defects.push(format!("{name}: there is no test {test}"));
                    }
                }
                _ => defects.push(format!("{name}: unknown item: {item}")),
            }
        }
        if outcomes != 1 {
            defects.push(format!("{name}: {outcomes} outcomes, not one"));
        }
        if tests == 0 {
            defects.push(format!("{name}: no test"));
        }
        defects
    }
}

/// Whether the item is one test in backticks, file and function, and exists.
fn is_known(item: &str, exists: impl Fn(&str, &str) -> bool) -> bool {
    let span = item.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    let test = span.and_then(|span| span.split_once(".rs::"));
    test.is_some_and(|(file, function)| exists(&format!("{file}.rs"), function))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "# Hardening\n\n- **Test** is an item.\n\n## Flood\n\n### Of PING\n\n- Input: PING.\n- Outcome: Nothing\n  grows.\n\
                         - Source: RFC 9000 §21.9\n- Test: `a/b.rs::it_rests`\n- Test: `c.rs::it_ends`\n";

    fn found(catalogue: &str) -> Vec<String> {
        let known = [("a/b.rs", "it_rests"), ("c.rs", "it_ends")];
        defects(catalogue, |file, function| known.contains(&(file, function)))
    }

    #[test]
    fn whole_case_has_no_defect() {
        assert_eq!(found(WHOLE), [""; 0]);
        assert_eq!(tests(WHOLE), 2);
    }

    #[test]
    fn missing_test_is_named() {
        let renamed = WHOLE.replace("c.rs::it_ends", "c.rs::it_ended");
        assert_eq!(found(&renamed), ["Of PING: there is no test `c.rs::it_ended`"]);
        let moved = WHOLE.replace("`a/b.rs", "`a/c.rs");
        assert_eq!(found(&moved), ["Of PING: there is no test `a/c.rs::it_rests`"]);
        let bare = WHOLE.replace("`c.rs::it_ends`", "it_ends");
        assert_eq!(found(&bare), ["Of PING: there is no test it_ends"]);
    }

    #[test]
    fn case_needs_an_outcome_and_a_test() {
        let untested = WHOLE.replace("- Test: ", "- Source: ");
        assert_eq!(found(&untested), ["Of PING: no test"]);
        let open = WHOLE.replace("- Outcome: ", "- Input: ");
        assert_eq!(found(&open), ["Of PING: 0 outcomes, not one"]);
    }

    #[test]
    fn other_forms_are_refused() {
        let mistyped = format!("{WHOLE}- Tests: `c.rs::it_ends`\n");
        assert_eq!(found(&mistyped), ["Of PING: unknown item: Tests: `c.rs::it_ends`"]);
        let loose = format!("{WHOLE}\n`c.rs::it_ends`\n");
        assert_eq!(found(&loose), ["Of PING: not an item of the list: `c.rs::it_ends`"]);
    }
}
