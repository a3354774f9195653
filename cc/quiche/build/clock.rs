//! Lets `clock::now` answer wherever quiche reads the time, and refuses a read that would be left.

use std::path::Path;

use super::source;

/// Reads that stay: file, type whose `now` is called, reason.
const KEPT: [(&str, &str, &str); 1] =
    [("lib.rs", "SystemTime", "the date of a qlog trace, once per trace")];

/// Replaces every read of the monotonic clock below `root`.
///
/// # Errors
/// A file cannot be read or written, or reads a clock in a form that is not known here.
pub fn replace(root: &Path) -> Result<(), String> {
    for path in source::files(root)? {
        if path.extension().is_none_or(|x| x != "rs") {
            continue;
        }
        let name = path.strip_prefix(root).unwrap_or(&path);
        let text = source::read(&path)?;
        let ours = replaced(&text);
        if let Some((line, what)) = read_left(&name.display().to_string(), &ours) {
            return Err(format!(
                "src/{}:{line}: `{what}` reads a clock that is not quiche::clock; build/clock.rs does not know it",
                name.display()
            ));
        }
        if ours != text {
            source::write(&path, &ours)?;
        }
    }
    Ok(())
}

/// Returns a source text that reads our clock.
pub fn replaced(text: &str) -> String {
    text.replace("std::time::Instant::now", "Instant::now")
        .replace("time::Instant::now", "Instant::now")
        .replace("Instant::now", "crate::clock::now")
        .replace(
            "pkt_space.largest_rx_pkt_time.elapsed()",
            "crate::clock::now().saturating_duration_since(pkt_space.largest_rx_pkt_time)",
        )
}

/// Returns the first line of a file that reads another clock than ours, and how: `Type::now` of any type, or `elapsed()`.
pub fn read_left(file: &str, text: &str) -> Option<(usize, String)> {
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    for (at, _) in text.match_indices("now") {
        let before = text[..at].trim_end();
        let after = text[at + "now".len()..].chars().next();
        if after.is_some_and(is_word) || !before.ends_with("::") {
            continue;
        }
        let path = before.trim_end_matches("::").trim_end();
        let owner = &path[path.trim_end_matches(is_word).len()..];
        let is_kept = KEPT.iter().any(|(kept, of, _)| *kept == file && *of == owner);
        if owner != "clock" && !is_kept {
            return Some((line(at), format!("{owner}::now")));
        }
    }
    text.match_indices("elapsed")
        .find(|(at, _)| {
            let rest = text[at + "elapsed".len()..].trim_start();
            text[..*at].trim_end().ends_with('.') && rest.starts_with('(')
        })
        .map(|(at, _)| (line(at), ".elapsed()".to_owned()))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
