//! virt-handler's migration proxies: sockets in the source's pod that are connected with the sockets of the target's
//! pod.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::pod::Pod;

/// The ports in KubeVirt's socket names: the migration stream (memory and device state), and disks.
const PORTS: [u16; 2] = [49152, 49153];

/// The proxies of one migration. Dropping them closes all connections.
#[derive(Debug)]
pub struct Proxies {
    tasks: Vec<JoinHandle<()>>,
    sockets: Vec<PathBuf>,
}

impl Proxies {
    /// Listens in the source's pod; `uid` is the UID of the source's VMI.
    pub fn start(source: &Pod, target: &Pod, uid: &str) -> Result<Proxies> {
        Proxies::start_limited(source, target, uid, None)
    }

    /// As [`Proxies::start`], with at most `limit` bytes per second in each connection for memory and disks.
    pub fn start_limited(
        source: &Pod,
        target: &Pod,
        uid: &str,
        limit: Option<u64>,
    ) -> Result<Proxies> {
        let source_dir = source.create_qemu_dir("/run/kubevirt/migrationproxy")?;
        let target_dir = target.path("/run/kubevirt/migrationproxy");
        let libvirt = (format!("{uid}-source.sock"), target.libvirt_socket(), None);
        let data = PORTS.map(|port| {
            let name = format!("{uid}-{port}-source.sock");
            (name.clone(), target_dir.join(name), limit)
        });
        let sockets = [libvirt].into_iter().chain(data);
        let mut proxies = Proxies {
            tasks: Vec::new(),
            sockets: Vec::new(),
        };
        for (name, to, limit) in sockets {
            let path = source_dir.join(name);
            let serving = serve(listen(&path)?, to, limit);
            proxies.tasks.push(tokio::spawn(serving));
            proxies.sockets.push(path);
        }
        Ok(proxies)
    }

    /// Closes all connections and stops listening.
    pub fn close(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
        for socket in self.sockets.drain(..) {
            let _ = fs::remove_file(socket);
        }
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        self.close();
    }
}

fn listen(path: &Path) -> Result<UnixListener> {
    let _ = fs::remove_file(path);
    let listener =
        UnixListener::bind(path).with_context(|| format!("a proxy at {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    Ok(listener)
}

async fn serve(listener: UnixListener, to: PathBuf, limit: Option<u64>) {
    // Dropped, and so aborted, when this task is aborted.
    let mut connections = JoinSet::new();
    while let Ok((mut connection, _)) = listener.accept().await {
        let to = to.clone();
        connections.spawn(async move {
            let Ok(mut other) = UnixStream::connect(&to).await else {
                return;
            };
            let _ = match limit {
                None => tokio::io::copy_bidirectional(&mut connection, &mut other)
                    .await
                    .map(drop),
                Some(limit) => copy_limited(connection, other, limit).await,
            };
        });
    }
}

/// Copies in both directions until both have ended, at most `limit` bytes per second to the target.
async fn copy_limited(source: UnixStream, target: UnixStream, limit: u64) -> io::Result<()> {
    const TICK: Duration = Duration::from_millis(20);
    let (mut from_source, mut to_source) = source.into_split();
    let (mut from_target, mut to_target) = target.into_split();
    let to_target_side = async {
        let bytes_per_tick = limit / 50;
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            let mut chunk = (&mut from_source).take(bytes_per_tick);
            if tokio::io::copy(&mut chunk, &mut to_target).await? == 0 {
                return to_target.shutdown().await;
            }
        }
    };
    let to_source_side = async {
        tokio::io::copy(&mut from_target, &mut to_source).await?;
        to_source.shutdown().await
    };
    tokio::try_join!(to_target_side, to_source_side).map(drop)
}
