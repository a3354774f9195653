//! Requests to the admin address of a running server, and words for what it replies.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sluicegate_cc::Registry;
use sluicegate_config::Config;
pub(super) use sluicegate_qlog::text::{bytes as size, duration as time, plain};
use tokio::net::TcpStream;

use super::exit::{shown, wrong};

/// Admin address of the configuration in the binary.
const DEFAULT_ADMIN: &str = "127.0.0.1:9180";
/// Time for the server's response.
const LIMIT: Duration = Duration::from_secs(5);
/// Largest response, bytes: many more than a thousand connections take.
const MAX_BYTES: usize = 4 << 20;
/// Exit code if the server has no such connection.
pub(super) const EXIT_NONE: u8 = 3;

/// The server that is asked.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct AdminArgs {
    /// Admin address of the server.
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_ADMIN)]
    admin: SocketAddr,
    /// Configuration file of the server, which has its admin address.
    #[arg(short, long, value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,
}

/// Outcome of a request.
pub(super) enum Reply {
    /// What the server returned.
    Found(Value),
    /// Sentence of a server that has nothing of the kind.
    NotFound(String),
    /// The configuration file is wrong, and was told so: exit code of that.
    WrongConfig(u8),
}

impl AdminArgs {
    /// Requests a page.
    ///
    /// # Errors
    /// The server cannot be asked, or refuses.
    pub(super) fn request(
        &self,
        registry: &Registry,
        method: &Method,
        target: &str,
    ) -> anyhow::Result<Reply> {
        let admin = match &self.config {
            None => self.admin,
            Some(file) => match Config::load(file, registry) {
                Ok(config) => config.admin.address.with_context(|| {
                    format!(
                        "{} sets no `address` in [admin], so its server cannot be asked",
                        file.display()
                    )
                })?,
                Err(error) => return Ok(Reply::WrongConfig(wrong(&error))),
            },
        };
        let (status, body) = ask(admin, method, target)?;
        match status {
            StatusCode::OK => {
                let reply = serde_json::from_str(&body);
                Ok(Reply::Found(reply.with_context(|| format!("{admin} sent no JSON"))?))
            }
            StatusCode::NOT_FOUND => Ok(Reply::NotFound(shown(&body))),
            _ => bail!("{admin} refuses ({status}): {}", shown(body.trim_end())),
        }
    }
}

impl AdminArgs {
    /// Sends an order. Returns the reply, or the exit code of one that nothing has come of; the reason was told then.
    ///
    /// # Errors
    /// The server cannot be asked, or refuses.
    pub(super) fn order(
        &self,
        registry: &Registry,
        target: &str,
    ) -> anyhow::Result<Result<Value, u8>> {
        Ok(match self.request(registry, &Method::POST, target)? {
            Reply::Found(reply) => Ok(reply),
            Reply::NotFound(reason) => {
                eprint!("{reason}");
                Err(EXIT_NONE)
            }
            Reply::WrongConfig(code) => Err(code),
        })
    }
}

/// Tells of workers that did not reply in time, so that something of theirs is missing. Returns whether there are any.
pub(super) fn tell_of_silent(reply: &Value) -> bool {
    let silent = reply["silent_workers"].as_array();
    let silent: Vec<&str> = silent.into_iter().flatten().filter_map(Value::as_str).collect();
    if !silent.is_empty() {
        eprintln!("no reply from {}: its connections are missing", shown(&silent.join(", ")));
    }
    !silent.is_empty()
}

/// Returns whether a word can be a connection ID, as the access log has them.
pub(super) fn is_id(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Requests a page, and returns the status and the body of the response.
///
/// # Errors
/// No server listens there, or it sends no response in time.
pub(super) fn ask(
    admin: SocketAddr,
    method: &Method,
    target: &str,
) -> anyhow::Result<(StatusCode, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exchange =
        async { tokio::time::timeout(LIMIT, exchange(admin, method.clone(), target)).await };
    let asked = runtime.block_on(exchange);
    asked.map_err(|_| anyhow::anyhow!("no reply from {admin} within {LIMIT:?}"))?
}

async fn exchange(
    admin: SocketAddr,
    method: Method,
    target: &str,
) -> anyhow::Result<(StatusCode, String)> {
    let stream = TcpStream::connect(admin).await.with_context(|| {
        format!(
            "no server listens at {admin}: start it with an `address` in [admin], and name that by --admin or its configuration by -c"
        )
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header(hyper::header::HOST, admin.to_string())
        .body(Empty::<bytes::Bytes>::new())?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("a response of {admin}: {error}"))?;
        anyhow::Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
    };
    tokio::pin!(exchange);
    tokio::select! {
        reply = &mut exchange => reply,
        _ = connection => exchange.await,
    }
}

/// Returns a text of a reply without control characters, which a terminal would obey.
pub(super) fn word(value: &Value, key: &str) -> String {
    plain(value[key].as_str().unwrap_or("?"))
}

/// Returns a number of a reply, 0 if it is missing.
pub(super) fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(0.0)
}
