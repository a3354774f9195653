//! URLs to request: those of the command line, of a file, or of a script with times.

use std::fs::File;
use std::io::Read as _;
use std::path::{Display, Path};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use sluicegate_quic_client::{Url, as_https};

use crate::options::LoadArgs;

/// Longest file of URLs, bytes.
const MOST_BYTES: u64 = 256 << 20;
/// Largest number of URLs of a file. Each takes half a KiB, and over TCP about 2 KiB more of each thread.
const MOST_LINES: usize = 1_000_000;
/// Largest offset in a script, milliseconds: the longest duration that an option takes, 7 days.
const LAST_OFFSET_MS: f64 = 7.0 * 86_400_000.0;

/// Requests of a run, and the server that gets them.
pub(super) struct Targets {
    /// URL that names the server.
    pub(super) origin: Url,
    /// Paths, in their order.
    pub(super) paths: Vec<String>,
    /// Offsets of a script at which they are requested; none is less than the one before.
    pub(super) offsets: Option<Vec<Duration>>,
}

impl Targets {
    /// Reads the file of URLs, if there is one.
    ///
    /// # Errors
    /// It cannot be read, a line is not as it has to be, or there is no URL.
    pub(super) fn new(options: &LoadArgs) -> anyhow::Result<Targets> {
        let mut found = Found {
            origin: options.base_uri.as_deref().map(parse).transpose()?,
            paths: Vec::new(),
        };
        let mut offsets = None;
        let script = options.timing_script_file.as_deref();
        if let Some(file) = script {
            let mut last = Duration::ZERO;
            let take = |found: &mut Found, line: &str| {
                let (offset, url) = script_line(line)?;
                last = last.max(offset);
                offsets.get_or_insert_with(Vec::new).push(last);
                found.add(url)
            };
            found.add_lines(file, take)?;
        } else if let Some(file) = options.input_file.as_deref() {
            found.add_lines(file, Found::add)?;
        } else {
            let mut urls = options.urls.iter();
            urls.try_for_each(|url| found.add(url))?;
        }
        Ok(Targets {
            origin: found
                .origin
                .filter(|_| !found.paths.is_empty())
                .context("no URL; name one, or a file of them by -i")?,
            paths: found.paths,
            offsets,
        })
    }
}

/// URLs so far.
struct Found {
    /// The base URL, or the first one.
    origin: Option<Url>,
    paths: Vec<String>,
}

impl Found {
    /// Adds a URL. If it is not the first, only its path is used.
    fn add(&mut self, text: &str) -> anyhow::Result<()> {
        let url = match (&self.origin, text.starts_with('/')) {
            (Some(origin), true) => parse(&format!("https://{}{text}", origin.authority()))?,
            (None, true) => bail!("{text} names no host; name one by --base-uri"),
            (None, false) => parse(text)?,
            (Some(_), false) => parse(&as_https(text))?,
        };
        self.paths.push(url.path.clone());
        self.origin.get_or_insert(url);
        Ok(())
    }

    /// Adds the lines of a file, but for empty ones, each by `add`.
    fn add_lines(
        &mut self,
        file: &Path,
        mut add: impl FnMut(&mut Found, &str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let name = name(file);
        let text = read(file, MOST_BYTES + 1)?;
        ensure!(
            text.len() as u64 <= MOST_BYTES,
            "{name} has more than {} MiB; shorten it",
            MOST_BYTES >> 20
        );
        let text = String::from_utf8(text).with_context(|| format!("{name} is not UTF-8"))?;
        let lines = || {
            let lines = (1_u32..).zip(text.lines().map(str::trim));
            lines.filter(|(_, line)| !line.is_empty())
        };
        ensure!(
            lines().take(MOST_LINES + 1).count() <= MOST_LINES,
            "{name} has more than {MOST_LINES} lines; shorten it"
        );
        ensure!(lines().next().is_some(), "{name} has no URL; write one in each line");
        for (number, line) in lines() {
            add(self, line).with_context(|| format!("{name}, line {number}"))?;
        }
        Ok(())
    }
}

fn parse(text: &str) -> anyhow::Result<Url> {
    Url::parse_any(text).with_context(|| format!("cannot request {text}"))
}

/// Takes a line of a script apart: its offset, and its URL.
fn script_line(line: &str) -> anyhow::Result<(Duration, &str)> {
    let (offset, url) = line.split_once('\t').context("expected milliseconds, a tab and a URL")?;
    let millis: Option<f64> = offset.trim().parse().ok();
    let millis = millis.filter(|millis| (0.0..=LAST_OFFSET_MS).contains(millis));
    let millis = millis.with_context(|| {
        format!(
            "`{offset}` is no offset; expected milliseconds up to 7 days, such as 12.5, a tab and a URL"
        )
    })?;
    Ok((Duration::from_secs_f64(millis / 1e3), url.trim()))
}

/// Reads up to `most` bytes of a file; `-` is standard input.
pub(super) fn read(file: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let result = if file == Path::new("-") {
        std::io::stdin().take(most).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    result.with_context(|| format!("cannot read {}", name(file)))?;
    Ok(bytes)
}

fn name(file: &Path) -> Display<'_> {
    let is_input = file == Path::new("-");
    let name = if is_input { Path::new("standard input") } else { file };
    name.display()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    /// Returns the targets of a file with this text, by this option.
    fn targets(option: &str, text: &str) -> anyhow::Result<Targets> {
        let name = format!("sluicegate-targets-{:?}", std::thread::current().id());
        let file = std::env::temp_dir().join(name + &std::process::id().to_string());
        std::fs::write(&file, text).unwrap();
        let targets = Targets::new(&options::parse(&[option, file.to_str().unwrap()]).unwrap());
        std::fs::remove_file(file).unwrap();
        targets
    }

    #[test]
    fn lines_of_a_script_have_offsets_and_urls() {
        let text = "0\thttps://a:1/x\r\n\n 12.345 \t http://b/y?z \n12.3450001\t/v\n3\tc/w";
        let targets = targets("--timing-script-file", text).unwrap();
        assert_eq!(targets.origin.authority(), "a:1");
        assert_eq!(targets.paths, ["/x", "/y?z", "/v", "/w"]);
        // A line leaves after the one before it.
        let micros = [0, 12_345, 12_345, 12_345].map(Duration::from_micros);
        assert_eq!(targets.offsets.as_deref(), Some(&micros[..]));
    }

    #[test]
    fn a_file_of_urls_has_no_offsets() {
        let targets = targets("-i", "https://a/x\n\n/y\n").unwrap();
        assert_eq!(targets.paths, ["/x", "/y"]);
        assert_eq!(targets.offsets, None);
    }

    #[test]
    fn mistakes_in_a_file_are_named_with_their_line() {
        let script = "--timing-script-file";
        let many = "/\n".repeat(MOST_LINES + 1);
        for (option, text, part) in [
            (script, "0\thttps://a/\n\nhttps://a/\n", "line 3: expected milliseconds, a tab"),
            (script, "0 https://a/\n", "line 1: expected milliseconds, a tab"),
            (script, "1s\thttps://a/\n", "line 1: `1s` is no offset; expected"),
            (script, "-1\thttps://a/\n", "line 1: `-1` is no offset"),
            (script, "nan\thttps://a/\n", "line 1: `nan` is no offset"),
            (script, "inf\thttps://a/\n", "line 1: `inf` is no offset"),
            (
                script,
                "604800001\thttps://a/\n",
                "line 1: `604800001` is no offset; expected milliseconds up to 7 days",
            ),
            (script, "0\tftp://a/\n", "line 1: cannot request ftp://a/: "),
            (script, "0\thttps://a/\n1\t/\tb\n", "line 2: cannot request"),
            (script, "0\t/\n", "line 1: / names no host; name one by --base-uri"),
            (script, "\n\n", "has no URL; write one in each line"),
            ("-i", "https://a/\nhttps://a/ b\n", "line 2: cannot request"),
            ("-i", "", "has no URL; write one in each line"),
            ("-i", &many, "has more than 1000000 lines; shorten it"),
        ] {
            let error = targets(option, text).map(drop).unwrap_err();
            assert!(format!("{error:#}").contains(part), "{text:.60}: {error:#}");
        }
    }
}
