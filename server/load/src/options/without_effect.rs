//! Options of h2load that mean nothing here.

use clap::ArgAction;

/// Options that are accepted with a warning, so that scripts for h2load run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WithoutEffect {
    #[arg(short = 'f', long, value_name = "SIZE", hide = true)]
    max_frame_size: Option<String>,
    #[arg(long, value_name = "SUITE", hide = true)]
    ciphers: Option<String>,
    #[arg(long, value_name = "SUITE", hide = true)]
    tls13_ciphers: Option<String>,
    #[arg(long, value_name = "SIZE", hide = true)]
    header_table_size: Option<String>,
    #[arg(long, value_name = "SIZE", hide = true)]
    encoder_header_table_size: Option<String>,
    #[arg(long, hide = true, action = ArgAction::SetTrue)]
    ktls: bool,
}

impl WithoutEffect {
    /// Returns a warning for each option that was given.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        const NOT_BUILT: &str = "it is not available";
        let given = [
            ("--max-frame-size", self.max_frame_size.is_some(), NOT_BUILT),
            ("--ciphers", self.ciphers.is_some(), NOT_BUILT),
            (
                "--tls13-ciphers",
                self.tls13_ciphers.is_some(),
                "BoringSSL's cipher suites of TLS 1.3 are fixed",
            ),
            ("--header-table-size", self.header_table_size.is_some(), NOT_BUILT),
            ("--encoder-header-table-size", self.encoder_header_table_size.is_some(), NOT_BUILT),
            ("--ktls", self.ktls, NOT_BUILT),
        ];
        let given = given.into_iter().filter(|(_, given, _)| *given);
        given.map(|(name, _, why)| format!("{name} has no effect: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::options::parse;

    #[test]
    fn options_without_meaning_are_accepted_with_a_warning() {
        let words = "-f 16K --ciphers x --tls13-ciphers x --header-table-size 4K --encoder-header-table-size 4K --ktls a";
        let words: Vec<_> = words.split_whitespace().collect();
        let args = parse(&words).unwrap();
        let warnings: Vec<_> = args.without_effect.warnings().collect();
        assert_eq!(warnings.len(), 6, "{warnings:#?}");
        assert!(warnings.iter().all(|line| line.starts_with("--")));
    }
}
