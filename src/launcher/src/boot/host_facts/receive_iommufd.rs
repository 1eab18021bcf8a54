//! The open `/dev/iommu` that a device plugin hands over, for host devices that are opened through it.
//!
//! KubeVirt's plugin opens and configures it on the node and serves it once, at a socket in the pod.
//! The launcher keeps it open until it ends and associates it with the domain for each start.

use std::fs;
use std::io::{self, ErrorKind, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use crate::blocking::{self, NoAnswer};

/// How long the plugin may take; it normally sends at once.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Sent to the plugin when it may close its end.
const ACKNOWLEDGEMENT: [u8; 1] = [0];

/// The socket exists, but no iommufd arrives from it.
#[derive(Debug, thiserror::Error)]
pub enum IommuFdError {
    /// The socket has no server, or the connection broke.
    #[error(
        "iommufd: {what} {socket}: {source}; the device plugin serves it once: a VM that lost it needs a new pod"
    )]
    Socket {
        /// What was done.
        what: &'static str,
        /// The socket.
        socket: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// What came is not an open device.
    #[error(
        "iommufd: {socket} handed over {what} instead of an open /dev/iommu; does the node have one?"
    )]
    NoDevice {
        /// The socket.
        socket: PathBuf,
        /// What came.
        what: &'static str,
    },
    /// The socket hangs.
    #[error("iommufd: {0}")]
    NoAnswer(#[from] NoAnswer),
}

/// The device, once it was handed over.
#[derive(Debug, Default)]
pub struct IommuFd {
    socket: PathBuf,
    device: Mutex<Option<Arc<OwnedFd>>>,
}

impl IommuFd {
    /// The device that may come from a socket.
    pub fn at_socket(socket: PathBuf) -> Self {
        Self {
            socket,
            device: Mutex::default(),
        }
    }

    /// The device, if one was handed over.
    pub fn get(&self) -> Option<Arc<OwnedFd>> {
        self.device
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The device; requested where there is a socket, and only until it has arrived.
    ///
    /// # Errors
    /// [`IommuFdError`], naming the socket. No socket is no error: most VMs have none.
    pub async fn receive(&self) -> Result<Option<Arc<OwnedFd>>, IommuFdError> {
        if let Some(device) = self.get() {
            return Ok(Some(device));
        }
        // The launcher's own directory is local: a sync of a VM without the device waits for no other thread.
        if matches!(fs::exists(&self.socket), Ok(false)) {
            return Ok(None);
        }
        let socket = self.socket.clone();
        let received =
            blocking::file_call("asking for the iommufd", PLUGIN_TIMEOUT * 2, move || {
                receive(&socket)
            });
        let Some(device) = received.await?? else {
            return Ok(None);
        };
        tracing::info!(socket = %self.socket.display(), "the device plugin handed over an iommufd");
        let device = Arc::new(device);
        *self.device.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&device));
        Ok(Some(device))
    }
}

fn receive(socket: &Path) -> Result<Option<OwnedFd>, IommuFdError> {
    let failed = |what| {
        let socket = socket.to_owned();
        move |source| IommuFdError::Socket {
            what,
            socket,
            source,
        }
    };
    let mut stream = match UnixStream::connect(socket) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        connected => connected.map_err(failed("connecting to"))?,
    };
    stream
        .set_read_timeout(Some(PLUGIN_TIMEOUT))
        .map_err(failed("waiting for"))?;
    let device = take(&stream).map_err(failed("receiving from"))?;
    let no_device = |what| IommuFdError::NoDevice {
        socket: socket.to_owned(),
        what,
    };
    let device = device.ok_or_else(|| no_device("nothing"))?;
    let file = fs::File::from(device);
    let kind = file
        .metadata()
        .map_err(failed("looking at what came from"))?;
    if !kind.file_type().is_char_device() {
        return Err(no_device("something else"));
    }
    // The device has arrived; a failure to acknowledge it does not matter.
    let _ = stream.write_all(&ACKNOWLEDGEMENT);
    Ok(Some(file.into()))
}

/// The first open file of one message; further files are closed.
fn take(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut files = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 32];
    let message = recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut files,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("more open files than can be meant"));
    }
    let mut all = files.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok(all.next().and_then(|mut files| files.next()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::File;
    use std::io::{IoSlice, Read};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;
    use std::thread::{self, JoinHandle};

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    /// A device plugin: serves a file once; returns what its client sends.
    fn plugin(socket: &Path, file: Option<File>) -> JoinHandle<Vec<u8>> {
        let listener = UnixListener::bind(socket).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut files = SendAncillaryBuffer::new(&mut space);
            let fds: Vec<_> = file.iter().map(AsFd::as_fd).collect();
            if !fds.is_empty() {
                assert!(files.push(SendAncillaryMessage::ScmRights(&fds)));
            }
            let bytes = [IoSlice::new(&[0])];
            sendmsg(&stream, &bytes, &mut files, SendFlags::empty()).unwrap();
            let mut received = Vec::new();
            let _ = stream.read_to_end(&mut received);
            received
        })
    }

    fn device() -> File {
        File::open("/dev/full").unwrap()
    }

    #[tokio::test]
    async fn device_is_received_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("iommufd.sock");
        let iommufd = IommuFd::at_socket(socket.clone());
        assert!(iommufd.receive().await.unwrap().is_none());
        let plugin = plugin(&socket, Some(device()));
        let received = iommufd.receive().await.unwrap().unwrap();
        assert_eq!(plugin.join().unwrap(), ACKNOWLEDGEMENT);
        let number = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_rdev;
        assert_eq!(number(&received), number(&device().into()));
        assert!(Arc::ptr_eq(
            &received,
            &iommufd.receive().await.unwrap().unwrap()
        ));
    }

    #[tokio::test]
    async fn socket_without_a_device_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        for (name, file, says) in [
            (
                "a",
                None,
                "handed over nothing instead of an open /dev/iommu",
            ),
            (
                "b",
                Some(tempfile::tempfile().unwrap()),
                "something else instead",
            ),
        ] {
            let socket = directory.path().join(name);
            let plugin = plugin(&socket, file);
            let error = IommuFd::at_socket(socket).receive().await.unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
            plugin.join().unwrap();
        }
        let error = IommuFd::at_socket(directory.path().join("a"))
            .receive()
            .await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("connecting to /") && error.contains("needs a new pod"),
            "{error}"
        );
    }
}
