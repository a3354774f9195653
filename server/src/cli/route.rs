//! `sluicegate route` says which route responds to a request, and why the others do not.

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use http::{HeaderName, HeaderValue, Uri};
use sluicegate_config::{Config, Step, locate};

use sluicegate_http::authority::is_authority;
use sluicegate_http::exchange::RequestHead;
use sluicegate_http::path::CanonicalPath;
use sluicegate_http::route::{Explanation, RankingRule, RouteVerdict};
use sluicegate_http::target::Query;

/// Exit code if no route responds.
pub(super) const EXIT_NO_ROUTE: u8 = 1;

/// Show which route responds to a request, and why the others do not. Exits with 1 if none does.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RouteArgs {
    /// Configuration file.
    pub(super) file: PathBuf,
    /// URL of the request: `https://host[:port]/path?query`
    url: String,
    /// Method of the request.
    #[arg(short = 'X', long, default_value = "GET")]
    method: String,
    /// Field of the request, "name: value"; may be given several times.
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Address of the client, for `allow` and `deny`.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) from: Option<IpAddr>,
}

fn field(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = "expected \"name: value\"";
    let (name, value) = text.split_once(':').ok_or(wrong)?;
    let name = HeaderName::try_from(name).map_err(|_| wrong)?;
    let value = HeaderValue::try_from(value.trim()).map_err(|_| wrong)?;
    Ok((name, value))
}

impl RouteArgs {
    /// Returns the head of the request.
    ///
    /// # Errors
    /// The URL cannot be requested, or its path is refused with 400.
    pub(super) fn head(&self) -> anyhow::Result<RequestHead> {
        let url = self.url.split('#').next().unwrap_or_default();
        let uri: Uri = url.parse().context("the URL cannot be parsed")?;
        let authority = uri.authority().map(|authority| authority.as_str());
        let authority = authority.filter(|authority| is_authority(authority));
        let authority = authority.context("the URL names no host: https://host/path")?;
        let scheme = uri.scheme_str();
        ensure!(
            matches!(scheme, Some("https" | "http")),
            "the URL must begin with https:// or http://"
        );
        ensure!(
            !self.method.bytes().any(|byte| byte.is_ascii_lowercase()),
            "the method is refused with 400: methods are in upper case"
        );
        let path = CanonicalPath::parse(uri.path()).context("the path is refused with 400")?;
        Ok(RequestHead {
            method: self.method.clone(),
            protocol: None,
            scheme: scheme.map(ToOwned::to_owned),
            authority: authority.to_owned(),
            path,
            query: uri.query().map(Query::new),
            headers: self.headers.clone(),
        })
    }
}

/// Prints the explanation: first the route that responds, then the others in the order of the file.
pub(super) fn print(
    explanation: &Explanation,
    file: &Path,
    config: &Config,
    out: &mut dyn Write,
) -> io::Result<()> {
    let named = |at: usize| {
        let place = locate(file, &[Step::Key("route"), Step::Index(at)]);
        let place = place.map_or_else(
            || file.display().to_string(),
            |place| format!("{}:{}", place.file, place.position.line),
        );
        let hosts: Vec<String> =
            config.routes[at].hosts().iter().map(ToString::to_string).collect();
        let hosts =
            if hosts.is_empty() { String::new() } else { format!(" on {}", hosts.join(", ")) };
        format!("{place}: {}{hosts}", config.routes[at].label())
    };
    let of_site = |at: usize| {
        let site = &config.routes[at].site;
        let (name, keys) = (site.name()?, site.inherited_keys().join(", "));
        let index = config.sites.iter().position(|site| site.name == name)?;
        let place = locate(file, &[Step::Key("site"), Step::Index(index)]);
        let place = place.map_or_else(
            || file.display().to_string(),
            |place| format!("{}:{}", place.file, place.position.line),
        );
        Some(format!("from site {name} ({place}): {keys}"))
    };
    let verdicts = explanation.verdicts.iter().enumerate();
    let chosen = verdicts.clone().find(|(_, verdict)| **verdict == RouteVerdict::Responds);
    match chosen {
        Some((at, _)) => {
            writeln!(out, "{}: responds, {}", named(at), explanation.response)?;
            for note in explanation.notes.iter().cloned().chain(of_site(at)) {
                writeln!(out, "  {note}")?;
            }
        }
        None => writeln!(out, "no route responds: {}", explanation.response)?,
    }
    for (at, verdict) in verdicts {
        let reason = match verdict {
            RouteVerdict::Responds => continue,
            RouteVerdict::Outranked(rule) => outranked(*rule),
            RouteVerdict::Host => "another host",
            RouteVerdict::Path => "another path",
            RouteVerdict::Fields => "match_headers does not match",
            RouteVerdict::Query => "match_query does not match",
            RouteVerdict::Method => "another method",
        };
        writeln!(out, "{}: {reason}", named(at))?;
    }
    Ok(())
}

/// Returns why a route that matches does not respond.
const fn outranked(rule: RankingRule) -> &'static str {
    match rule {
        RankingRule::Priority => "matches, but its priority is lower",
        RankingRule::Host => "matches, but its host is less specific",
        RankingRule::ExactPath => "matches, but an exact path comes first",
        RankingRule::RegexBeforePrefix => {
            "matches, but a regular expression comes before a prefix (see `priority`)"
        }
        RankingRule::FirstRegex => "matches, but its regular expression stands later in the file",
        RankingRule::LongestPrefix => "matches, but its path is shorter",
        RankingRule::Conditions => "matches, but has fewer conditions",
        RankingRule::Method => "matches, but names no method",
        RankingRule::Place => "matches, but stands later in the file",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: RouteArgs,
    }

    fn head(arguments: &[&str]) -> anyhow::Result<RequestHead> {
        let line = ["route", "edge.toml"].iter().chain(arguments);
        Line::try_parse_from(line)?.args.head()
    }

    #[test]
    fn arguments_describe_a_request() {
        let url = "https://Example.org:8443/a/../b%7e?c=d#e";
        let head = head(&[url, "-X", "PUT", "-H", "X-A: 1", "--header", "x-b:"]).unwrap();
        assert_eq!((head.method.as_str(), head.authority.as_str()), ("PUT", "Example.org:8443"));
        assert_eq!((head.path.as_str(), head.query.as_deref()), ("/b~", Some("c=d")));
        let fields = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        assert_eq!(fields.collect::<Vec<_>>(), [("x-a", &b"1"[..]), ("x-b", b"")]);
    }

    #[test]
    fn a_request_that_nobody_can_send_is_refused() {
        for (url, reason) in [
            ("/x", "names no host"),
            ("example.org/x", "URL"),
            ("ftp://example.org/", "must begin with https://"),
            ("https://a@example.org/", "names no host"),
            ("https://example.org/a%2f..", "refused with 400"),
        ] {
            let error = head(&[url]).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
        assert!(head(&["https://example.org/", "-H", "a b"]).is_err());
        let error = head(&["https://example.org/", "-X", "post"]).unwrap_err();
        assert!(error.to_string().contains("upper case"), "{error}");
    }
}
