//! Warnings about options that are taken, and do less than one may expect.

use super::{Plan, RequestCount};
use crate::options::Format;

/// Returns whether the fields are those of gRPC.
fn is_grpc(fields: &[(String, String)]) -> bool {
    let is = |name: &str, value: &str| {
        fields.iter().any(|(found, text)| {
            found.eq_ignore_ascii_case(name) && text.to_ascii_lowercase().starts_with(value)
        })
    };
    is("content-type", "application/grpc") && !is("content-type", "application/grpc-web")
}

impl Plan {
    /// Returns warnings about the options.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let options = &self.options;
        let mut warnings: Vec<_> = options.without_effect.warnings().collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        if options.threads > cores {
            warnings.push(format!("-t {}: there are {cores} cores", options.threads));
        }
        if let (Some(given), Some(RequestCount::PerConnection(each))) =
            (options.requests, self.requests)
            && given > each
        {
            warnings.push(format!(
                "-n {given}: the script has {each} lines, so each connection makes {each} requests"
            ));
        }
        if options.warm_up_time.is_some() && options.duration.is_none() {
            warnings.push("--warm-up-time has no effect without -D".into());
        }
        if self.protocol.is_http1_alone() && options.max_concurrent_streams > 1 {
            let most = options.max_concurrent_streams;
            warnings.push(format!(
                "-m {most}: a connection of HTTP/1.1 has one request open at a time"
            ));
        }
        if self.protocol.is_http1_alone() && is_grpc(&options.header) {
            let remedy = if self.protocol.has_tls() {
                "leave out --h1, or give --alpn-list=h2"
            } else {
                "-p h2c"
            };
            warnings
                .push(format!("gRPC needs HTTP/2, and these requests go over HTTP/1.1: {remedy}"));
        }
        if options.histogram && options.format != Format::H2load {
            warnings.push("--histogram has no effect without --format h2load".into());
        }
        if !self.protocol.is_quic() {
            warnings.extend(options.warnings_over_tcp());
        }
        warnings.extend(self.warnings_about_sessions());
        warnings
    }

    fn warnings_about_sessions(&self) -> Vec<String> {
        let options = &self.options;
        let mut warnings = Vec::new();
        if !self.protocol.has_tls() {
            let given = [
                ("--tls-session-file", options.tls_session_file.is_some()),
                ("--resume", options.resume),
            ];
            let given = given.into_iter().filter(|(_, given)| *given);
            warnings.extend(given.map(|(name, _)| format!("{name} has no effect without TLS")));
        }
        let file = self.session_file.as_ref();
        warnings.extend(file.and_then(|file| file.warning.clone()));
        if !options.early_data || !self.protocol.is_quic() {
            return warnings;
        }
        if self.is_safe && self.is_open_loop() {
            warnings.push(
                "--early-data: with --arrival-rate the schedule begins after all handshakes, so only connections that replace others \
                 send early data"
                    .into(),
            );
        }
        if !self.is_safe {
            warnings.push(
                "--early-data has no effect: requests are by a method that may change something on the server (RFC 8470 §4)".into(),
            );
        } else if let Some(file) = file {
            match &file.session {
                None if !options.resume => warnings.push(
                    "--early-data has no effect: the session file has no session to resume".into(),
                ),
                Some(session) if !session.has_params() => warnings.push(
                    "--early-data has no effect on connections that begin with the session of the file: it has no QUIC transport \
                     parameters; h2load, and this program over TCP, store none"
                        .into(),
                ),
                _ => {}
            }
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    fn warnings(line: &str) -> Vec<String> {
        let words: Vec<_> = line.split_whitespace().collect();
        Plan::new(&options::parse(&words).unwrap()).unwrap().warnings()
    }

    #[test]
    fn options_that_do_nothing_are_named() {
        let file = std::env::temp_dir();
        let file = file.join(format!("sluicegate-warnings-{}", std::process::id()));
        std::fs::write(&file, include_str!("../../../quic-client/src/session/h2load.pem")).unwrap();
        let of_file = format!("--early-data --tls-session-file {}", file.display());
        let of_other = "--early-data --tls-session-file /dev/null";
        let script = std::env::temp_dir();
        let script = script.join(format!("sluicegate-lines-{}", std::process::id()));
        std::fs::write(&script, "0\thttps://127.0.0.1/\n1\t/\n").unwrap();
        let of_script = format!("-c3 --timing-script-file {}", script.display());
        for (line, part) in [
            ("--warm-up-time 1s https://127.0.0.1/", "without -D"),
            ("--h1 -m2 https://127.0.0.1/", "-m 2"),
            (&format!("-n3 {of_script}"), "so each connection makes 2 requests"),
            ("--histogram --format json https://127.0.0.1/", "--format"),
            (
                "--resume --early-data --h1 https://127.0.0.1/",
                "--early-data has no effect over TCP",
            ),
            ("--resume http://127.0.0.1/", "without TLS"),
            ("-H content-type:application/grpc http://127.0.0.1/", "-p h2c"),
            ("-H Content-Type:application/grpc+proto --h1 https://127.0.0.1/", "leave out --h1"),
            ("--resume --early-data -d /dev/null https://127.0.0.1/", "may change something"),
            ("--resume --early-data --arrival-rate 10 https://127.0.0.1/", "--arrival-rate"),
            (&format!("{of_file} https://127.0.0.1/"), "no QUIC transport parameters"),
            (&format!("{of_other} https://127.0.0.1/"), "no session to resume"),
        ] {
            let found = warnings(line);
            assert!(found.len() == 1 && found[0].contains(part), "{line}: {found:?}");
        }
        std::fs::remove_file(file).unwrap();
        for line in [
            &*format!("-n2 {of_script}"),
            &of_script,
            "--resume --early-data https://127.0.0.1/",
            "--resume --h1 https://127.0.0.1/",
            "--histogram https://127.0.0.1/",
            "-H content-type:application/grpc -p h2c http://127.0.0.1/",
            "-H content-type:application/grpc https://127.0.0.1/",
            "-H content-type:application/grpc-web --h1 https://127.0.0.1/",
        ] {
            assert_eq!(warnings(line), [""; 0], "{line}");
        }
        std::fs::remove_file(script).unwrap();
    }
}
