//! The environment variables in which device plugins list the devices of the pod.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use domain::host_facts::{ClaimedDevice, HostFacts};
use domain::host_numa_topology::HostTopology;
use domain::resource_claims::{ClaimedRequest, device};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use crate::blocking;
use crate::blocking::NoAnswer;

/// The prefixes of the variables of device plugins.
const PREFIXES: [&str; 3] = ["PCI_RESOURCE_", "MDEV_PCI_RESOURCE_", "USB_RESOURCE_"];

/// The raw text of each variable of a device plugin (addresses separated by commas), by its name.
pub(super) fn filter_by_prefix(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, String> {
    environment
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
        .filter(|(name, _)| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        .collect()
}

/// Where the kubelet mounts the metadata files (KEP-5304).
pub(super) const DRA_METADATA_DIRECTORY: &str = "/var/run/kubernetes.io/dra-device-attributes";
/// The suffix of a driver's metadata file in the directory of a request.
const FILE_SUFFIX: &str = "-metadata.json";
/// Maximum number of bytes that are read of a file. A file describes one device, in a handful of versions.
const MAX_BYTES: u64 = 1 << 20;

/// The device of each request, by claim and request. A request without a device has the reason in
/// [`ClaimedDevice::problem`].
pub(super) fn dra_devices(
    metadata: &Path,
    requests: &[ClaimedRequest],
) -> BTreeMap<String, BTreeMap<String, ClaimedDevice>> {
    let mut dra_devices: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
    for request in requests {
        let device = read(&metadata.join(&request.directory), &request.request);
        let device = device.unwrap_or_else(|problem| ClaimedDevice {
            problem,
            ..ClaimedDevice::default()
        });
        dra_devices
            .entry(request.claim.clone())
            .or_default()
            .insert(request.request.clone(), device);
    }
    dra_devices
}

fn read(directory: &Path, request: &str) -> Result<ClaimedDevice, String> {
    let file = metadata_file(directory)?;
    let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let opened = fs::File::open(&file).map_err(|error| with_path(&error))?;
    let mut text = String::new();
    opened
        .take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| with_path(&error))?;
    device(&text, request).map_err(|error| with_path(&error))
}

/// The only metadata file in the directory, since one driver serves a request.
fn metadata_file(directory: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(directory)
        .map_err(|error| format!("no device metadata in {}: {error}", directory.display()))?;
    let files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(FILE_SUFFIX))
        .collect();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        files => Err(format!(
            "{} has {} files of device metadata (*{FILE_SUFFIX}), and must have exactly one",
            directory.display(),
            files.len()
        )),
    }
}

// Receives the open `/dev/iommu` (iommufd) that a device plugin hands over, for host devices that are opened through
// it.
//
// KubeVirt's plugin opens and configures the device on the node, and serves the file descriptor once, at a socket in
// the pod. The launcher keeps the descriptor open until it ends, and associates it with the domain at each start.

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

/// Adds the NUMA node of each PCI device of the pod that has one, and the CPUs of these nodes.
pub(super) fn add_numa_nodes(facts: &mut HostFacts, topology: &dyn HostTopology) {
    let nodes = pci_addresses(facts)
        .filter_map(|address| Some((address.to_owned(), topology.numa_node(address)?)));
    facts.device_numa_nodes = nodes.collect();
    let nodes = facts.device_numa_nodes.values();
    facts.numa_cpus = nodes
        .map(|node| (*node, topology.node_cpus(*node)))
        .collect();
}

/// The addresses of all PCI devices that the pod may use: from device plugins, networks and resource claims.
fn pci_addresses(facts: &HostFacts) -> impl Iterator<Item = &str> {
    let plugins = facts.device_plugins.iter();
    let plugin_addresses = plugins
        .filter(|(name, _)| name.starts_with("PCI_RESOURCE_"))
        .flat_map(|(_, addresses)| addresses.split(','))
        .map(str::trim);
    let interfaces = facts.network_info.iter().flat_map(|info| &info.interfaces);
    let network_addresses = interfaces
        .filter_map(|interface| Some(&*interface.device_info.as_ref()?.pci.as_ref()?.address));
    let requests = facts.claimed_devices.values().flat_map(BTreeMap::values);
    let claim_addresses = requests.map(|device| &*device.pci_address);
    plugin_addresses
        .chain(network_addresses)
        .chain(claim_addresses)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{IoSlice, Read};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;
    use std::thread;
    use std::thread::JoinHandle;

    use domain::host_facts::{ClaimedDevice, DeviceInfo, NetworkInfo, NetworkInterface, PciDevice};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;
    use crate::sysfs_numa::sysfs_with_two_nodes;

    fn filtered(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        filter_by_prefix(
            variables
                .iter()
                .map(|(name, text)| (name.into(), text.into())),
        )
    }

    #[test]
    fn only_variables_of_device_plugins_remain() {
        let plugins = filtered(&[
            ("PATH", "/bin"),
            ("USB_RESOURCE_X", "1:2"),
            ("PCI_RESOURCE_Y", "a"),
        ]);
        let names: Vec<_> = plugins.keys().map(String::as_str).collect();
        assert_eq!(names, ["PCI_RESOURCE_Y", "USB_RESOURCE_X"]);
    }

    const METADATA: &str = r#"{"apiVersion":"metadata.resource.k8s.io/v1alpha1","requests":[
        {"name":"gpu","devices":[{"attributes":{"mdevUUID":{"string":"uuid"}}}]}]}"#;

    fn request() -> ClaimedRequest {
        ClaimedRequest {
            claim: "a".into(),
            request: "gpu".into(),
            directory: "resourceclaims/a/gpu".into(),
        }
    }

    #[test]
    fn device_is_read_from_the_only_metadata_file() {
        let root = tempfile::tempdir().unwrap();
        let read_device = |root: &Path| dra_devices(root, &[request()])["a"]["gpu"].clone();
        assert!(
            read_device(root.path())
                .problem
                .contains("no device metadata in")
        );
        let directory = root.path().join("resourceclaims/a/gpu");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("other"), "").unwrap();
        assert!(read_device(root.path()).problem.contains("has 0 files"));
        fs::write(directory.join("driver-metadata.json"), METADATA).unwrap();
        assert_eq!(read_device(root.path()).mdev_uuid, "uuid");
        fs::write(directory.join("second-metadata.json"), METADATA).unwrap();
        assert!(read_device(root.path()).problem.contains("has 2 files"));
    }

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

    #[test]
    fn devices_of_plugins_networks_and_claims_have_a_numa_node() {
        const DEVICE: &str = "0000:65:00.2";
        let interface = NetworkInterface {
            network: "fast".into(),
            device_info: Some(DeviceInfo {
                pci: Some(PciDevice {
                    address: DEVICE.into(),
                }),
            }),
        };
        let claimed = ClaimedDevice {
            pci_address: DEVICE.into(),
            ..ClaimedDevice::default()
        };
        let sources = [
            HostFacts {
                device_plugins: [(
                    "PCI_RESOURCE_Y".into(),
                    "0000:17:00.0, 0000:65:00.2, ../../etc,,x".into(),
                )]
                .into(),
                ..HostFacts::default()
            },
            HostFacts {
                network_info: Some(NetworkInfo {
                    interfaces: vec![interface],
                }),
                ..HostFacts::default()
            },
            HostFacts {
                claimed_devices: [("claim".into(), [("vf".into(), claimed)].into())].into(),
                ..HostFacts::default()
            },
        ];
        let root = tempfile::tempdir().unwrap();
        let sysfs = sysfs_with_two_nodes(root.path());
        for mut facts in sources {
            add_numa_nodes(&mut facts, &sysfs);
            assert_eq!(facts.device_numa_nodes, [(DEVICE.into(), 1)].into());
            assert_eq!(facts.numa_cpus, [(1, vec![1, 3])].into());
        }
    }
}
