//! Reasons for which a site cannot be compiled.

use std::path::PathBuf;

use crate::proxy::UpstreamTlsError;

/// Reason for which routes cannot be served: one line with the cause and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The file of a fixed reply cannot be read.
    #[error(
        "route {route}: cannot read body_file {}: {cause}; correct the path in [route.fixed], or make the file readable \
         for the server's user",
        file.display()
    )]
    BodyFile {
        /// The route's paths.
        route: String,
        /// File that was to be read.
        file: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The folder of a file handler cannot be read.
    #[error(
        "route {route}: cannot read the folder {}: {cause}; correct `root` in [route.files], or let the server's \
         user read it",
        root.display()
    )]
    Root {
        /// The route's paths.
        route: String,
        /// Folder that was to be opened.
        root: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The folder of a FastCGI handler is none.
    #[error(
        "route {route}: cannot enter the folder {}: {cause}; correct `root` in [route.fastcgi], or let the server's \
         user enter it",
        root.display()
    )]
    ScriptRoot {
        /// The route's paths.
        route: String,
        /// Folder that was to be entered.
        root: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The file of an error page cannot be read.
    #[error(
        "route {route}: cannot read the error page {}: {cause}; correct the path in `error_pages`, or make the file \
         readable for the server's user",
        file.display()
    )]
    ErrorPage {
        /// The route's paths.
        route: String,
        /// File that was to be read.
        file: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The file of a route's redirects cannot be read or used.
    #[error("route {route}: {cause}; correct `redirects`, or the file")]
    Redirects {
        /// The route's paths.
        route: String,
        /// File that was to be read.
        file: PathBuf,
        /// Description of the problem, with its place in the file.
        cause: String,
    },
    /// The file of a route's users cannot be read or used.
    #[error("route {route}: cannot use {}: {cause}; correct `users_file` in [route.basic_auth], or the file", file.display())]
    Users {
        /// The route's paths.
        route: String,
        /// File that was to be read.
        file: PathBuf,
        /// Description of the problem.
        cause: String,
    },
    /// The TLS settings of a proxy's upstreams cannot be used.
    #[error("pool {pool}: {cause}")]
    Tls {
        /// Name of the pool.
        pool: String,
        /// Description of the problem.
        cause: UpstreamTlsError,
    },
    /// The route's path is not in its canonical spelling, so no request would match it.
    #[error("route {route}: no request matches this path; {advice}")]
    Path {
        /// The one path, as configured.
        route: String,
        /// The path to write instead, or the fault of this one.
        advice: String,
    },
    /// A header field cannot be sent.
    #[error("route {route}: `{field}` cannot stand in a header; use visible ASCII characters")]
    Field {
        /// The route's paths.
        route: String,
        /// Name or value of the field, as configured.
        field: String,
    },
}
