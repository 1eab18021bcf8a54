//! Serves libvirt's hook on a migration's target: the domain that is to be received comes in, the domain to use goes out.
//!
//! ```text
//!   source's libvirt ─▶ this pod's libvirt ─▶ hook (virt-hook libvirt-hook) ─▶ socket ─▶ edits, WASM hooks
//!                            ◀── domain, or exit code 1 and the reason ◀──────────────────┘
//! ```
//! [`kubevirt_api::migration_hook_protocol`] has the protocol. KubeVirt's own hook keeps its side of the connection open, so that
//! the end of the document is found in the document.

mod domain_xml_end;
pub(crate) mod hook_link;

use std::io;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kubevirt_api::migration_hook_protocol::{MAX_BYTES, read_request, refusal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;

use crate::unix_listener::Listener;

/// libvirt's hook waits for 30 s.
const DEADLINE: Duration = Duration::from_secs(28);
/// For what follows an answered document.
const REST: Duration = Duration::from_secs(2);
/// One migration has one hook; its attempts follow each other.
const MAX_CONNECTIONS: usize = 4;

/// Makes the domain to use of the one that comes in; the error is the reason of a refusal.
pub(crate) type EditDomain =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// The server; dropping it closes its socket and its connections.
pub(crate) struct HookServer {
    path: PathBuf,
    edit: watch::Sender<EditDomain>,
    _listener: Listener,
}

impl HookServer {
    /// Serves `socket`, which [`crate::unix_listener::bind`] has made at `path`, for any number of attempts until this is
    /// dropped.
    ///
    /// # Errors
    /// The socket cannot be watched.
    pub(crate) fn start(
        socket: net::UnixListener,
        path: &Path,
        edit: EditDomain,
    ) -> io::Result<HookServer> {
        let (edit, current) = watch::channel(edit);
        let serve = move |connection| answer(connection, Arc::clone(&current.borrow()));
        let what = "libvirt's migration hook";
        Ok(HookServer {
            path: path.to_owned(),
            edit,
            _listener: Listener::serve(socket, what, Some(MAX_CONNECTIONS), serve)?,
        })
    }

    /// Uses `edit` for connections from now on; the others go on with theirs.
    pub(crate) fn replace(&self, edit: EditDomain) {
        self.edit.send_replace(edit);
    }
}

impl Drop for HookServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer(mut connection: UnixStream, edit: EditDomain) {
    let answered = tokio::time::timeout(DEADLINE, exchange(&mut connection, &edit));
    match answered.await {
        Ok(Ok(())) => read_rest(connection).await,
        Ok(Err(error)) => tracing::warn!(reason = %error, "libvirt's migration hook went away"),
        Err(_) => tracing::error!("libvirt's migration hook was not answered within {DEADLINE:?}"),
    }
}

async fn exchange(connection: &mut UnixStream, edit: &EditDomain) -> io::Result<()> {
    let (edited, reads_refusals) = match read(connection).await? {
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
            // KubeVirt's hook takes whatever comes for the domain, and nothing for a failure.
            if reads_refusals {
                connection.write_all(refusal(&reason).as_bytes()).await?;
            }
        }
    }
    connection.shutdown().await
}

/// What a hook writes after the end of the document, such as a line's end: a connection that is closed before would be the
/// hook's failure.
async fn read_rest(connection: UnixStream) {
    let (mut rest, mut nowhere) = (connection.take(MAX_BYTES as u64), tokio::io::sink());
    let read = tokio::io::copy(&mut rest, &mut nowhere);
    let _ = tokio::time::timeout(REST, read).await;
}

/// The domain as text, up to its end or the end of the stream.
async fn read(connection: &mut UnixStream) -> io::Result<Result<String, String>> {
    let mut bytes = Vec::with_capacity(64 << 10);
    loop {
        let read = connection.read_buf(&mut bytes).await?;
        if bytes.len() > MAX_BYTES {
            return Ok(Err(format!(
                "the incoming domain has more than {MAX_BYTES} bytes"
            )));
        }
        if read == 0 || domain_xml_end::is_complete(&bytes) {
            let text = String::from_utf8(bytes);
            return Ok(text.map_err(|_| "the incoming domain is not UTF-8".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests;
