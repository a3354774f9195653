//! The handler that has FastCGI servers run scripts.

use std::path::PathBuf;
use std::time::Duration;

use super::handler::FILE_NAMES;
use super::upstream::fastcgi_address;
use super::{
    Balance, Files, HashBy, PoolChoice, PoolSettings, PoolUpstream, Symlinks, UpstreamAddress,
    UpstreamTls, Upstreams,
};
use crate::error::Error;
use crate::schema::{KIB, Kind, MIB, Refusal, choice, count, duration, millis, seconds, size};
use crate::section::Section;
use crate::words::canonical;

table! {
    /// The route above has a FastCGI server, such as PHP-FPM, run scripts below a folder. Put it beside files for WordPress and most other
    /// PHP applications: files = { root = "/srv/www" } and fastcgi = { server = "unix:/run/php/fpm.sock", root = "/srv/www",
    /// front_controller = "/index.php" } in one route send files that exist, except scripts, and have PHP respond to everything
    /// else. The part of the request's path that follows the route's `path` is looked up below `root`. Its first name with an ending
    /// of `split` is the script, and what follows is PATH_INFO; a folder stands for its `index`. Only a regular file is run, so a path
    /// such as /upload.jpg/x.php runs nothing. A request without a script goes to `front_controller`, or gets 404.
    /// Scripts get the usual parameters (SCRIPT_FILENAME, REQUEST_URI, REMOTE_ADDR, HTTPS, HTTP_HOST and so on; behind `basic_auth`
    /// also AUTH_TYPE and REMOTE_USER) and the request's fields, as HTTP_ACCEPT, but no field with other characters than letters, digits and -,
    /// and none that claims what only a proxy can know, see `pass_fields`. Responses lose the fields by which scripts command other
    /// servers, X-Accel-Redirect and all that begin with X-Accel-, and X-Sendfile: scripts send files themselves. If the server cannot be reached or its response is malformed, the client gets 502; if a
    /// timeout below expires, 504; if the response breaks off, the client's stream is reset. What a script writes to stderr goes to the
    /// log. Each request has a connection of its own.
    #[derive(Eq)]
    pub struct FastCgi = [route.fastcgi], check: check_fastcgi {
        /// FastCGI servers, which take turns: unix: and the path of a socket, or a host with a port, 9000 if none is given. The user of
        /// Sluicegate needs write permission on a socket. Keep servers without a socket on this host or on a private network: whoever
        /// reaches one can run any code there.
        servers as server: Vec<UpstreamAddress> {
            kind: Kind::Words {
                words: "a FastCGI server such as \"unix:/run/php/fpm.sock\" or \"127.0.0.1:9000\"",
                each: "",
                min: 1,
                max: 64,
                read: fastcgi_address,
            },
            required: "\"unix:/run/php/fpm.sock\"",
            examples: ["[\"10.0.0.1:9000\", \"10.0.0.2:9000\"]"],
            reload: Live
        },
        /// Folder of the scripts, which the FastCGI server must find at the same path. Sluicegate itself needs no permission to read
        /// scripts, only to enter the folders.
        root: PathBuf { kind: Kind::Path, required: "\"/srv/www\"", reload: Live },
        /// Names of the scripts that represent a folder; the first one that exists is run. With an empty list, a folder has no script.
        index: Vec<String> {
            kind: FILE_NAMES,
            default: "[\"index.php\"]",
            examples: ["[]"],
            reload: Live
        },
        /// Script that takes the requests for which there is no other, such as /index.php of WordPress, Laravel, Symfony and Drupal. It
        /// stands below `root`, and finds the path of the request in REQUEST_URI.
        front_controller: Option<String> {
            kind: Kind::Word {
                words: "the path of a script below `root`, such as \"/index.php\", of up to 1024 visible ASCII characters",
                read: front_controller,
            },
            unset: "requests without a script get 404",
            examples: ["\"/index.php\""],
            reload: Live
        },
        /// Endings of the names of scripts. Files with these endings are never sent as they are by a files handler of the same route, in
        /// upper or lower case. /login.php/x runs /login.php, too, with the PATH_INFO /x. An exact route does not cover that: one
        /// that protects a script needs path = "~ ^/login[.]php(/|$)".
        split: Vec<String> {
            kind: Kind::Words {
                words: "an ending such as \".php\", of up to 16 letters and digits",
                each: "",
                min: 1,
                max: 8,
                read: |word| canonical(ending(word)),
            },
            default: "[\".php\"]",
            examples: ["[\".php\", \".php7\"]"],
            reload: Live
        },
        /// Symbolic links below `root` that are followed, as for files. A link with an absolute target counts as one that leads outside.
        symlinks: Symlinks { kind: choice(Symlinks::WORDS), default: "\"inside\"", reload: Live },
        /// Further parameters for scripts, or other values for those that the server sends. They are the same for every request.
        /// SERVER_NAME is the host for which a client asks; set it for applications that take it for the name of the site.
        params: Vec<(String, String)> {
            kind: Kind::Params,
            default: "{}",
            examples: [
                "{ \"APP_ENV\" = \"production\" }",
                "{ \"SERVER_NAME\" = \"www.example.com\" }"
            ],
            reload: Live
        },
        /// Fields that scripts receive from any client although they claim what only a proxy can know, as `pass_fields` of
        /// [route.proxy]. Scripts find the client in REMOTE_ADDR, also behind trusted_proxies.
        pass_fields: Vec<String> { kind: Kind::FieldNames, default: "[]", examples: ["[\"x-original-url\"]"], reload: Live },
        /// Part of a request's body that is kept in memory until it is whole, or this long, before a server gets the request: until then
        /// a slow client takes none of its processes. The rest of a longer body is passed on as it arrives. One of unknown length
        /// must fit, because scripts need to know the length; a larger one gets 411. Browsers state lengths; chunked uploads of
        /// HTTP/1.1, and those of HTTP/2 and HTTP/3 without content-length, do not. Each worker has 16 MiB for this, of which a
        /// client may take no more than it leaves free. Where that is the limit, a body of unknown length gets 503, and another
        /// one is passed on as it arrives.
        body_buffer: u64 { kind: size(KIB, 8 * MIB), default: "\"256KiB\"", reload: Live },
        /// Time in which a connection to a server must open before another one is tried.
        connect_timeout: Duration { kind: duration(millis(1), seconds(300)), default: "\"3s\"", reload: Live },
        /// Longest time from the end of the request to the head of the response. Raise it for slow scripts, together with
        /// max_execution_time of PHP.
        head_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// Longest time between two reads of a response body from a script, or between two writes of a request body to it.
        idle_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// Largest number of requests that a server handles at a time, from all workers together; 0 means no limit. Set it
        /// to pm.max_children of PHP-FPM, so that requests wait here and not in the backlog of its socket. All routes of a
        /// server need the same value: different ones count apart. If it is 8 or more, a client alone gets about seven
        /// eighths.
        max_connections: u64 { kind: count(0, 65_536, "requests"), default: "0", examples: ["16"], reload: Live },
        /// Largest number of requests that wait for a server. The clients that wait take turns; if it is 8 or more, a
        /// client alone gets about seven eighths. Beyond it, clients get 503.
        queue: u64 { kind: count(0, 65_536, "requests"), default: "1024", reload: Live },
        /// Longest time that a request waits in the queue; then the client gets 503.
        queue_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"5s\"", reload: Live },
        /// Largest header section of a response. If it is larger, the client gets 502.
        header_bytes: u64 { kind: size(KIB, MIB), default: "\"64KiB\"", reload: Live },
    }
}

impl FastCgi {
    /// Returns the pool of the servers, which is named after them.
    pub fn pool(&self) -> PoolChoice {
        let upstreams = self.servers.iter().cloned().map(PoolUpstream::new);
        let settings = PoolSettings {
            balance: Balance::RoundRobin,
            hash_by: HashBy::ClientAddress,
            hash_load: 0,
            slow_start: Duration::ZERO,
            keepalive: 0,
            keepalive_timeout: seconds(60),
            keepalive_max_age: Duration::ZERO,
            resolver: Vec::new(),
            max_connections: self.max_connections,
            queue: self.queue,
            queue_timeout: self.queue_timeout,
            retry_budget: 0,
            max_fails: 3,
            fail_timeout: seconds(10),
            // The handler reads heads itself; upstreams that differ in this would count their requests apart.
            header_bytes: 64 * KIB,
            proxy_protocol: None,
            congestion_control: None,
            tls: UpstreamTls {
                tls_name: None,
                tls_ca: None,
                tls_verify: true,
                tls_certificate: None,
                tls_key: None,
                http2: false,
            },
        };
        PoolChoice::inline(Upstreams(upstreams.collect()), settings)
    }

    /// Returns whether a name has an ending of scripts.
    fn is_script(&self, name: &str) -> bool {
        self.split.iter().any(|ending| name.ends_with(&**ending))
    }

    /// Refuses keys of a files handler beside this one that would send scripts as files.
    pub(super) fn check_beside(&self, files: &Files, section: &Section<'_>) -> Result<(), Error> {
        let tried = files.candidates.iter().map(|name| ("try", name));
        let mut names = tried.chain(files.index.iter().map(|name| ("index", name)));
        let lower = |text: &str| text.to_ascii_lowercase();
        let is_sent = |name: &str| {
            let mut endings = self.split.iter();
            endings.any(|ending| lower(name).ends_with(&lower(ending)))
        };
        let Some((key, name)) = names.find(|(_, name)| is_sent(name)) else {
            return Ok(());
        };
        let found = format!("\"{name}\" in `{key}` of [route.files] beside [route.fastcgi]");
        let expected = "no script, which would be sent as a file; `index` and `front_controller` of [route.fastcgi] run scripts";
        let at = section.position("files");
        Err(section.source.error(at, found, expected))
    }
}

fn check_fastcgi(fastcgi: &mut FastCgi, section: &Section<'_>) -> Result<(), Error> {
    let index = fastcgi.index.iter().map(|name| ("index", name));
    let mut scripts =
        index.chain(fastcgi.front_controller.iter().map(|name| ("front_controller", name)));
    let Some((key, name)) = scripts.find(|(_, name)| !fastcgi.is_script(name)) else {
        return Ok(());
    };
    let found = format!("\"{name}\" for `{key}`");
    let expected = format!("a name with an ending of `split`: {}", fastcgi.split.join(", "));
    Err(section.source.error(section.position(key), found, expected))
}

/// Reads the path of a script.
fn front_controller(word: &str) -> Result<String, Refusal> {
    let plain = |b: u8| b.is_ascii_graphic() && !b"?#%\\${}".contains(&b);
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('.');
    let mut names = word.strip_prefix('/').unwrap_or_default().split('/');
    if word.len() <= 1024 && word.bytes().all(plain) && names.all(is_name) {
        Ok(word.to_owned())
    } else {
        Err(Refusal::default())
    }
}

/// Reads the ending of a script's name.
fn ending(word: &str) -> Option<&str> {
    let name = word.strip_prefix('.')?;
    let fits = (1..=16).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric());
    fits.then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_one_spelling() {
        for word in ["/index.php", "/a/b.php", "/a..b.php"] {
            assert_eq!(front_controller(word).unwrap(), word);
        }
        for word in [
            "",
            "/",
            "index.php",
            "//a.php",
            "/a/",
            "/../a.php",
            "/.a.php",
            "/a b.php",
            "/$a.php",
            "/%61.php",
        ] {
            assert!(front_controller(word).is_err(), "{word}");
        }
        assert_eq!(ending(".php"), Some(".php"));
        for word in ["", ".", "php", ".p/p", ".php.", ".ä", "..php"] {
            assert_eq!(ending(word), None, "{word}");
        }
    }
}
