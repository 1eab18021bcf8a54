//! virt-handler's proxies: sockets in the source's pod that lead to those of the target's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::pod::Pod;

/// The ports by which KubeVirt names the sockets: memory, and disks.
const PORTS: [u16; 2] = [49152, 49153];

/// The proxies of one migration. Dropping them cuts all connections.
#[derive(Debug)]
pub struct Proxies {
    tasks: Vec<JoinHandle<()>>,
    sockets: Vec<PathBuf>,
}

impl Proxies {
    /// Listens in the source's pod; `uid` is that of the source's VMI.
    pub fn start(source: &Pod, target: &Pod, uid: &str) -> Result<Proxies> {
        let ours = source.create_qemu_dir("/run/kubevirt/migrationproxy")?;
        let theirs = target.path("/run/kubevirt/migrationproxy");
        let libvirt = (format!("{uid}-source.sock"), target.libvirt_socket());
        let data = PORTS.map(|port| {
            let name = format!("{uid}-{port}-source.sock");
            (name.clone(), theirs.join(name))
        });
        let sockets = [libvirt].into_iter().chain(data);
        let mut proxies = Proxies {
            tasks: Vec::new(),
            sockets: Vec::new(),
        };
        for (name, to) in sockets {
            let path = ours.join(name);
            proxies.tasks.push(tokio::spawn(serve(listen(&path)?, to)));
            proxies.sockets.push(path);
        }
        Ok(proxies)
    }

    /// Ends all connections and accepts none any more.
    pub fn cut(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
        for socket in self.sockets.drain(..) {
            let _ = fs::remove_file(socket);
        }
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        self.cut();
    }
}

fn listen(path: &Path) -> Result<UnixListener> {
    let _ = fs::remove_file(path);
    let listener =
        UnixListener::bind(path).with_context(|| format!("a proxy at {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    Ok(listener)
}

async fn serve(listener: UnixListener, to: PathBuf) {
    // Aborted with this task.
    let mut connections = JoinSet::new();
    while let Ok((mut connection, _)) = listener.accept().await {
        let to = to.clone();
        connections.spawn(async move {
            if let Ok(mut other) = UnixStream::connect(&to).await {
                let _ = tokio::io::copy_bidirectional(&mut connection, &mut other).await;
            }
        });
    }
}
