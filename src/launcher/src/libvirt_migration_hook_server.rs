//! Serves libvirt's hook on a migration's target: receives the incoming domain's XML, and answers with the edited XML.
//!
//! ```text
//!   source's libvirt ─▶ this pod's libvirt ─▶ hook (virt-hook libvirt-hook) ─▶ socket ─▶ edits, WASM hooks
//!                            ◀── domain, or exit code 1 and the reason ◀──────────────────┘
//! ```
//! [`kubevirt_api::libvirt_migration_hook_protocol`] has the protocol. KubeVirt's own hook keeps its side of the
//! connection open, so the end of the document is detected from its content.

use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bounded_listener::{ByteListener, ConnectionHandle, limits};
use domain_xml::Document;
use futures_util::future::BoxFuture;
use kubevirt_api::libvirt_migration_hook_protocol::{MAX_BYTES, read_request, refusal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// How long an answer may take. libvirt's hook waits for 30 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(28);
/// How long to read bytes that follow the document.
const TRAILING_INPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Edits the XML of an incoming domain. The error is the reason why the domain is refused.
pub(crate) type EditDomain =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// The server for libvirt's hook. Dropping it closes its socket and its connections.
pub(crate) struct HookServer {
    path: PathBuf,
    edit: watch::Sender<EditDomain>,
    _listener: ByteListener,
}

impl HookServer {
    /// Serves `socket`, which [`crate::unix_listener::bind`] has made at `path`, until this is dropped. Any number of
    /// attempts is answered.
    ///
    /// # Errors
    /// The socket cannot be registered with the runtime.
    pub(crate) fn start(
        socket: net::UnixListener,
        path: &Path,
        edit: EditDomain,
    ) -> io::Result<HookServer> {
        let (edit, current) = watch::channel(edit);
        let serve = move |connection, handle| {
            let edit = Arc::clone(&current.borrow());
            answer(connection, handle, edit)
        };
        let socket = UnixListener::from_std(socket)?;
        Ok(HookServer {
            path: path.to_owned(),
            edit,
            _listener: ByteListener::serve(socket, limits::MIGRATION_HOOK, serve),
        })
    }

    /// Uses `edit` for new connections. Existing connections keep the function that they began with.
    pub(crate) fn replace(&self, edit: EditDomain) {
        self.edit.send_replace(edit);
    }
}

impl Drop for HookServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer(mut connection: UnixStream, handle: ConnectionHandle, edit: EditDomain) {
    let exchange = tokio::time::timeout(ANSWER_TIMEOUT, exchange(&mut connection, &handle, &edit));
    match exchange.await {
        Ok(Ok(())) => read_rest(connection).await,
        Ok(Err(error)) => tracing::warn!(reason = %error, "libvirt's migration hook went away"),
        Err(_) => {
            tracing::error!("libvirt's migration hook was not answered within {ANSWER_TIMEOUT:?}")
        }
    }
}

/// Reads the incoming domain and writes the answer. From the end of the document to that of the answer, the connection is
/// not idle.
async fn exchange(
    connection: &mut UnixStream,
    handle: &ConnectionHandle,
    edit: &EditDomain,
) -> io::Result<()> {
    let read = read_xml(connection).await?;
    let _running = handle.running();
    let (edited, reads_refusals) = match read {
        Ok(text) => {
            let (xml, reads_refusals) = read_request(&text);
            (edit(xml.to_owned()).await, reads_refusals)
        }
        Err(reason) => (Err(reason), false),
    };
    match edited {
        Ok(xml) => connection.write_all(xml.as_bytes()).await?,
        Err(reason) => {
            tracing::error!(reason, "the incoming domain is refused");
            // KubeVirt's hook takes any answer as the domain, and an empty answer as a failure.
            if reads_refusals {
                connection.write_all(refusal(&reason).as_bytes()).await?;
            }
        }
    }
    connection.shutdown().await
}

/// Reads the bytes that a hook writes after the end of the document, such as a newline. If the connection were closed
/// before, the hook would fail.
async fn read_rest(connection: UnixStream) {
    let (mut rest, mut sink) = (connection.take(MAX_BYTES as u64), tokio::io::sink());
    let read = tokio::io::copy(&mut rest, &mut sink);
    let _ = tokio::time::timeout(TRAILING_INPUT_TIMEOUT, read).await;
}

/// Reads the domain's XML, up to its end or the end of the stream. The inner error is the reason why it is refused.
async fn read_xml(connection: &mut UnixStream) -> io::Result<Result<String, String>> {
    let mut bytes = Vec::with_capacity(64 << 10);
    loop {
        let count = connection.read_buf(&mut bytes).await?;
        if bytes.len() > MAX_BYTES {
            return Ok(Err(format!(
                "the incoming domain has more than {MAX_BYTES} bytes"
            )));
        }
        if count == 0 || is_complete_domain(&bytes) {
            let text = String::from_utf8(bytes);
            return Ok(text.map_err(|_| "the incoming domain is not UTF-8".to_owned()));
        }
    }
}

const END_TAG: &[u8] = b"</domain>";

/// Whether the bytes are a complete document. The end tag alone is not enough, since metadata may contain it too.
fn is_complete_domain(bytes: &[u8]) -> bool {
    bytes.trim_ascii_end().ends_with(END_TAG)
        && std::str::from_utf8(bytes).is_ok_and(|text| Document::parse(text).is_ok())
}

// Installs libvirt's hook: a link at `/etc/libvirt/hooks/qemu`. It must exist before libvirt's daemon starts, which
// looks for the hook only once.

/// The path of libvirt's hook for QEMU domains.
const HOOK_PATH: &str = "/etc/libvirt/hooks/qemu";
/// The path of the hook's program in KubeVirt's images.
const CLIENT_PATH: &str = "/usr/bin/libvirt-hook-client";

/// The hook could not be installed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookLinkError {
    /// The hook's program does not exist.
    #[error(
        "--libvirt-hook-server-and-client, which KubeVirt always means from v1.10 on, needs {CLIENT_PATH}, which is virt-hook \
         under another name: {0}"
    )]
    MissingClient(io::Error),
    /// The link could not be made.
    #[error("linking {path} to {CLIENT_PATH}: {source}")]
    Link {
        /// The link.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
}

/// Links libvirt's hook to the program, and replaces an existing hook. `is_required` is whether the cluster
/// wants arriving domains edited. Otherwise a failure is only logged, for images without the program or with a
/// read-only directory; hooks then have no effect on a VM that arrives by a migration.
///
/// # Errors
/// [`HookLinkError`] if the link is required.
pub(crate) fn install_hook_link(is_required: bool) -> Result<(), HookLinkError> {
    match install_at(Path::new(HOOK_PATH), Path::new(CLIENT_PATH)) {
        Err(error) if !is_required => {
            tracing::warn!(
                reason = %error,
                "libvirt's hook stays as it is: hooks have no effect on a VM that arrives by a migration"
            );
            Ok(())
        }
        result => result,
    }
}

fn install_at(hook: &Path, client: &Path) -> Result<(), HookLinkError> {
    std::fs::metadata(client).map_err(HookLinkError::MissingClient)?;
    let failed = |source| HookLinkError::Link {
        path: hook.to_owned(),
        source,
    };
    match std::fs::remove_file(hook) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    symlink(client, hook).map_err(failed)
}

#[cfg(test)]
mod tests;
