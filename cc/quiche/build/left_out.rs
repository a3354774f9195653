//! Takes the tests that do not run out of upstream's source.

use std::path::Path;

use super::source;

/// Removes the listed tests below `root`. A line of the list is `FILE TEST: REASON`; `#` begins a comment.
///
/// # Errors
/// A line has another form, or names a test that does not exist.
pub fn remove(list: &str, root: &Path) -> Result<(), String> {
    for (at, line) in list.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("tests/left-out.txt:{}", at + 1);
        let (file, test) = entry(line)
            .ok_or_else(|| format!("{place}: found `{line}`, expected `FILE TEST: REASON`"))?;
        let path = root.join(file);
        let text = source::read(&path)?;
        let text = without(&text, test)
            .ok_or_else(|| format!("{place}: src/{file} has no test `{test}`"))?;
        source::write(&path, &text)?;
    }
    Ok(())
}

fn entry(line: &str) -> Option<(&str, &str)> {
    let (name, reason) = line.split_once(": ")?;
    let (file, test) = name.split_once(' ')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!reason.trim().is_empty() && !test.is_empty() && test.chars().all(is_name))
        .then_some((file, test))
}

/// Returns the text with the test compiled under no configuration; `None` where there is no such test, or more than one.
pub fn without(text: &str, test: &str) -> Option<String> {
    let mut lines: Vec<&str> = text.lines().collect();
    let head = format!("fn {test}(");
    let mut heads = (0..lines.len()).filter(|at| lines[*at].trim_start().starts_with(&head));
    let (at, None) = (heads.next()?, heads.next()) else {
        return None;
    };
    // Upstream writes doc comments between attributes, and they are attributes, too.
    let is_attribute = |line: &str| line.starts_with("#[") || line.starts_with("///");
    let attributes =
        lines[..at].iter().rev().take_while(|line| is_attribute(line.trim_start())).count();
    let is_test = { lines[at - attributes..at].iter() }
        .any(|line| matches!(line.trim(), "#[test]" | "#[rstest]"));
    if !is_test {
        return None;
    }
    lines.insert(at - attributes, "#[cfg(any())]");
    Some(lines.join("\n") + "\n")
}
