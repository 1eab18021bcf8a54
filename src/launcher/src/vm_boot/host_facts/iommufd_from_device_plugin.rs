//! Receives the open `/dev/iommu` (iommufd) that a device plugin hands over, for host devices that are opened through
//! it.
//!
//! KubeVirt's plugin opens and configures the device on the node, and serves the file descriptor once, at a socket in
//! the pod. The launcher keeps the descriptor open until it ends, and associates it with the domain at each start.

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

/// How long the plugin may take to send the descriptor; it normally sends at once.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The bytes that tell the plugin that it may close its end.
const ACKNOWLEDGEMENT: [u8; 1] = [0];

/// The socket exists, but no iommufd was received from it.
#[derive(Debug, thiserror::Error)]
pub enum IommuFdError {
    /// The socket has no server, or the connection broke.
    #[error(
        "iommufd: {what} {socket}: {source}; the device plugin serves it once: a VM that lost it needs a new pod"
    )]
    Socket {
        /// The operation.
        what: &'static str,
        /// The socket.
        socket: PathBuf,
        /// The error of the socket.
        source: io::Error,
    },
    /// The plugin sent no open device.
    #[error(
        "iommufd: {socket} handed over {what} instead of an open /dev/iommu; does the node have one?"
    )]
    NoDevice {
        /// The socket.
        socket: PathBuf,
        /// What was sent.
        what: &'static str,
    },
    /// Receiving timed out.
    #[error("iommufd: {0}")]
    NoAnswer(#[from] NoAnswer),
}

/// The iommufd, once it was received.
#[derive(Debug, Default)]
pub struct IommuFd {
    socket: PathBuf,
    device: Mutex<Option<Arc<OwnedFd>>>,
}

impl IommuFd {
    /// An iommufd that may be received from a socket.
    pub fn at_socket(socket: PathBuf) -> Self {
        Self {
            socket,
            device: Mutex::default(),
        }
    }

    /// The device, if it was received already.
    pub fn get(&self) -> Option<Arc<OwnedFd>> {
        self.device
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The device, received from the socket unless this was done before; `None` if there is no socket.
    ///
    /// # Errors
    /// [`IommuFdError`], naming the socket. No socket is no error: most VMs have none.
    pub async fn receive(&self) -> Result<Option<Arc<OwnedFd>>, IommuFdError> {
        if let Some(device) = self.get() {
            return Ok(Some(device));
        }
        // Not on another thread: the launcher's own directory is local, and a sync of a VM without the device need not
        // wait.
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
    let device = receive_file(&stream).map_err(failed("receiving from"))?;
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

/// Receives one message and returns its first open file. Further files are closed.
fn receive_file(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
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
    let mut rights = files.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok(rights.next().and_then(|mut files| files.next()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{IoSlice, Read};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;
    use std::thread::{self, JoinHandle};

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    /// A device plugin that serves a file once, and returns what its client sends.
    fn serve_once(socket: &Path, file: Option<File>) -> JoinHandle<Vec<u8>> {
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
        let plugin = serve_once(&socket, Some(device()));
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
        for (name, file, expected) in [
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
            let plugin = serve_once(&socket, file);
            let error = IommuFd::at_socket(socket).receive().await.unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
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
