//! A proxy between the launcher and virt-handler's notification server that can delay, hold or close connections.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The state of the proxy before virt-handler's notification server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyMode {
    /// The server answers.
    Open,
    /// The server answers each notification only after this many milliseconds.
    Slow(u64),
    /// The server accepts connections and never answers.
    Hung,
    /// The server's socket does not exist.
    Away,
}

/// A proxy on the launcher's side of the notification socket.
#[derive(Debug)]
pub(crate) struct NotifyProxy {
    path: PathBuf,
    upstream: PathBuf,
    mode: watch::Sender<ProxyMode>,
    listener: Option<JoinHandle<()>>,
}

impl NotifyProxy {
    /// Listens at `path` for connections to `upstream`.
    pub(crate) fn open(path: &Path, upstream: &Path) -> Result<NotifyProxy> {
        let mut notify_proxy = NotifyProxy {
            path: path.to_owned(),
            upstream: upstream.to_owned(),
            mode: watch::Sender::new(ProxyMode::Open),
            listener: None,
        };
        notify_proxy.listen()?;
        Ok(notify_proxy)
    }

    /// Changes the mode, for open connections too.
    pub(crate) fn set_mode(&mut self, mode: ProxyMode) -> Result<()> {
        self.mode.send_replace(mode);
        if mode == ProxyMode::Away {
            self.close();
        } else if self.listener.is_none() {
            self.listen()?;
        }
        Ok(())
    }

    fn listen(&mut self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let _ = std::fs::remove_file(&self.path);
        let listener =
            UnixListener::bind(&self.path).with_context(|| format!("{}", self.path.display()))?;
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(0o777))?;
        let (upstream, mode) = (self.upstream.clone(), self.mode.subscribe());
        self.listener = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, upstream.clone(), mode.clone()));
            }
        }));
        Ok(())
    }

    fn close(&mut self) {
        if let Some(task) = self.listener.take() {
            task.abort();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for NotifyProxy {
    fn drop(&mut self) {
        self.mode.send_replace(ProxyMode::Away);
        self.close();
    }
}

async fn connect(client: UnixStream, upstream: PathBuf, mode: watch::Receiver<ProxyMode>) {
    let Ok(server) = UnixStream::connect(&upstream).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut closed = mode.clone();
    tokio::select! {
        () = forward(from_client, to_server, mode.clone(), false) => {}
        () = forward(from_server, to_client, mode, true) => {}
        _ = closed.wait_for(|mode| *mode == ProxyMode::Away) => {}
    }
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<ProxyMode>,
    is_answer: bool,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let Ok(current_mode) = mode
            .wait_for(|mode| *mode != ProxyMode::Hung)
            .await
            .map(|mode| *mode)
        else {
            return;
        };
        if let (ProxyMode::Slow(millis), true) = (current_mode, is_answer) {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
