//! The host facts that conversion needs: most are probed at start-up, others when a VMI needs them
//! ([`vmi_host_query`]).

mod pod_devices;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use domain::convert::{BlockSizeLookup, ConvertError, VolumeModeLookup, block_size_lookups};
use domain::host_facts::{BlockSizes, HostFacts, NetworkInfo};
use domain::resource_claims::{ClaimedRequest, claimed_requests};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use rustix::fs::{Mode, OFlags, ioctl_blkpbszget, ioctl_blksszget, major, minor, open, statfs};
use tokio::time::Instant;

use crate::blocking;
use crate::blocking::NoAnswer;
use crate::config::Config;
use crate::sysfs_numa::{Sysfs, parse_cpu_list};
pub(crate) use pod_devices::{IommuFd, IommuFdError};

/// How long reading local files and devices may take; it normally takes milliseconds.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Says whether network namespaces have vsock ports of their own.
const VSOCK_NS_MODE: &str = "/proc/sys/net/vsock/ns_mode";

/// Probes the host at start-up.
pub(crate) fn probe(config: &Config) -> HostFacts {
    let path_text = |path: &Path| path.to_string_lossy().into_owned();
    HostFacts {
        kubevirt_version: config.kubevirt.version,
        architecture: domain::host_facts::go_architecture(std::env::consts::ARCH).to_owned(),
        allow_emulation: config.flags.allow_emulation,
        allow_cross_arch_emulation: config.flags.allow_cross_arch_emulation,
        emulators: emulators(),
        kvm_available: is_usable(&Path::new("/dev").join(device_name(&config.flags.hypervisor))),
        hypervisor: config.flags.hypervisor.clone(),
        cpuset: cpuset(),
        ovmf_path: path_text(&config.flags.ovmf_path),
        ephemeral_disk_dir: path_text(&config.paths.ephemeral_disks),
        container_disk_dir: path_text(&config.paths.container_disks),
        firmware_files: names_in(&config.flags.ovmf_path),
        firmware_auto_selection: config.flags.firmware_auto_selection,
        network_info: read_network_info(&config.paths.network_info),
        device_plugins: pod_devices::filter_by_prefix(std::env::vars_os()),
        serves_migration_hook: config.serves_migration_hook(),
        log_verbosity: config.verbosity.into(),
        vsock_ns_mode: fs::read_to_string(VSOCK_NS_MODE)
            .ok()
            .map(|mode| mode.trim().to_owned()),
        ..HostFacts::default()
    }
}

/// The name in `/dev` of the hypervisor's device.
fn device_name(hypervisor: &str) -> &str {
    match hypervisor {
        "hyperv-direct" => "mshv",
        other => other,
    }
}

/// Whether the path is a character device that can be opened. Sandboxes mask devices with regular files.
fn is_usable(device: &Path) -> bool {
    let opened = fs::OpenOptions::new().read(true).write(true).open(device);
    let metadata = opened.and_then(|file| file.metadata());
    metadata.is_ok_and(|metadata| metadata.file_type().is_char_device())
}

/// The names of QEMU's programs for all architectures that the image has.
fn emulators() -> Option<Vec<String>> {
    let mut programs = names_in(Path::new("/usr/bin"))?;
    programs.retain(|name| name.starts_with("qemu-system-"));
    Some(programs)
}

/// The names of the files in a directory; `None` if it cannot be read.
fn names_in(directory: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(directory).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Some(names.collect())
}

/// The facts that one VMI needs and that are not probed at start-up: devices of resource claims, block sizes of
/// volumes, addresses of SR-IOV interfaces, and the CPUs of the pod.
pub(crate) struct HostQuery {
    has_sriov: bool,
    has_dedicated_cpus: bool,
    /// Whether PCI devices are placed by their NUMA nodes.
    needs_numa_nodes: bool,
    device_requests: Vec<ClaimedRequest>,
    volumes: Vec<BlockSizeLookup>,
}

impl HostQuery {
    /// Determines the facts that the VMI needs.
    ///
    /// # Errors
    /// [`ConvertError`] for a disk that cannot be converted.
    pub(crate) fn for_vmi(
        vmi: &Vmi,
        options: &Options,
        facts: &HostFacts,
    ) -> Result<Self, ConvertError> {
        let domain = &vmi.spec.domain;
        let mut interfaces = domain.devices.interfaces.iter();
        let cpu = domain.cpu.as_ref();
        let has_dedicated_cpus = cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement);
        Ok(Self {
            has_sriov: interfaces.any(|interface| interface.sriov.is_some()),
            has_dedicated_cpus,
            needs_numa_nodes: has_dedicated_cpus
                && options.cluster().pci_numa_aware_topology_enabled,
            device_requests: claimed_requests(vmi),
            volumes: block_size_lookups(vmi, options, facts)?,
        })
    }

    /// Whether the VMI needs none of these facts.
    pub(crate) fn is_empty(&self) -> bool {
        self.device_requests.is_empty()
            && self.volumes.is_empty()
            && !self.has_sriov
            && !self.has_dedicated_cpus
    }

    /// Reads the facts and adds them, or the reason why a fact cannot be read. `network_info` is the downward API's
    /// file. Blocking: volumes may be on slow storage.
    pub(crate) fn answer(self, mut facts: HostFacts, network_info: &Path) -> HostFacts {
        if self.has_sriov {
            facts.network_info = read_network_info(network_info);
        }
        if self.has_dedicated_cpus {
            facts.cpuset = cpuset();
        }
        facts.claimed_devices = pod_devices::dra_devices(
            Path::new(pod_devices::DRA_METADATA_DIRECTORY),
            &self.device_requests,
        );
        if self.needs_numa_nodes {
            pod_devices::add_numa_nodes(&mut facts, &Sysfs::default());
        }
        for volume in self.volumes {
            match read_block_sizes(&volume) {
                Ok(sizes) => {
                    facts.block_sizes.insert(volume.path, sizes);
                }
                Err(problem) => {
                    facts.block_size_problems.insert(volume.path, problem);
                }
            }
        }
        facts
    }
}

/// The facts with the modes that the volumes of persistent volume claims have in this pod.
///
/// # Errors
/// [`NoAnswer`] if the file system hangs.
pub(crate) async fn with_volume_modes(
    mut facts: HostFacts,
    lookups: Vec<VolumeModeLookup>,
) -> Result<HostFacts, NoAnswer> {
    let is_block = |lookup: &VolumeModeLookup| {
        let metadata = fs::metadata(&lookup.block_path);
        metadata.is_ok_and(|metadata| metadata.file_type().is_block_device())
    };
    let is_image = |lookup: &VolumeModeLookup| {
        let metadata = lookup.image_path.as_ref().map(fs::metadata);
        metadata.is_some_and(|metadata| metadata.is_ok_and(|metadata| metadata.is_file()))
    };
    let look_up = move || {
        let (devices, others): (Vec<_>, Vec<_>) = lookups.into_iter().partition(is_block);
        let images = others.into_iter().filter(is_image);
        facts.image_volumes = images.map(|lookup| lookup.volume).collect();
        facts.block_volumes = devices.into_iter().map(|lookup| lookup.volume).collect();
        facts
    };
    blocking::file_call("looking for volumes", READ_TIMEOUT, look_up).await
}

/// Reads a volume's block sizes from the kernel.
fn read_block_sizes(volume: &BlockSizeLookup) -> Result<BlockSizes, String> {
    let path = &volume.path;
    let sizes = match volume.is_block {
        true => read_device(path),
        false => read_file_system(path),
    };
    sizes.map_err(|error| format!("unable to get the block sizes of {path}: {error}"))
}

/// The block sizes of a file: those of its file system.
fn read_file_system(path: &str) -> io::Result<BlockSizes> {
    let size = u64::try_from(statfs(path)?.f_bsize).unwrap_or_default();
    Ok(BlockSizes {
        logical: size,
        physical: size,
        discard_granularity: size,
    })
}

fn read_device(path: &str) -> io::Result<BlockSizes> {
    // Without O_NONBLOCK, opening a named pipe in the place of the device would never return.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let device = File::from(open(path, flags, Mode::empty())?);
    let metadata = device.metadata()?;
    if !metadata.file_type().is_block_device() {
        return Err(io::Error::other("it is not a block device"));
    }
    Ok(BlockSizes {
        logical: ioctl_blksszget(device.as_fd())?.into(),
        physical: ioctl_blkpbszget(device.as_fd())?.into(),
        discard_granularity: discard_granularity(metadata.rdev())?,
    })
}

/// The discard granularity in bytes; 0 if the kernel does not report it.
fn discard_granularity(device: u64) -> io::Result<u64> {
    let queue = format!("/sys/dev/block/{}:{}/queue", major(device), minor(device));
    match fs::read_to_string(format!("{queue}/discard_granularity")) {
        Ok(text) => text.trim().parse().map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// The files with the CPUs of the pod's cgroup, relative to sysfs: cgroup v2, then v1.
const CPUSET_FILES: [&str; 2] = [
    "fs/cgroup/cpuset.cpus.effective",
    "fs/cgroup/cpuset/cpuset.cpus",
];

/// The facts with the CPUs that the pod may use now.
///
/// # Errors
/// [`NoAnswer`] if sysfs hangs.
pub(crate) async fn with_current_cpus(facts: HostFacts) -> Result<HostFacts, NoAnswer> {
    let read = move || HostFacts {
        cpuset: cpuset(),
        ..facts
    };
    blocking::file_call("reading the pod's processors", READ_TIMEOUT, read).await
}

/// The CPUs that the pod may use, by its cgroup or else by the launcher's affinity.
fn cpuset() -> Vec<u32> {
    let cpus = cgroup_cpus(&Sysfs::default());
    if cpus.is_empty() { affinity() } else { cpus }
}

fn affinity() -> Vec<u32> {
    let set = rustix::thread::sched_getaffinity(None).ok();
    let Some(set) = set else { return Vec::new() };
    (0..1024u32)
        .filter(|cpu| set.is_set(*cpu as usize))
        .collect()
}

/// The CPUs that the pod's cgroup may use; empty if no list can be read.
fn cgroup_cpus(sysfs: &Sysfs) -> Vec<u32> {
    let mut lists = CPUSET_FILES.iter().filter_map(|path| sysfs.read(path));
    lists
        .next()
        .map(|text| parse_cpu_list(&text))
        .unwrap_or_default()
}

/// Maximum number of bytes that are read. A pod has a handful of interfaces.
const MAX_NETWORK_INFO_BYTES: u64 = 1 << 20;
/// How long to wait for the pod's network information. The kubelet writes the addresses of new interfaces a moment
/// after virt-handler has seen them.
const NETWORK_INFO_TIMEOUT: Duration = Duration::from_secs(1);
const NETWORK_INFO_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The pod's interfaces. A file that cannot be parsed is logged and ignored.
fn read_network_info(path: &Path) -> Option<NetworkInfo> {
    parse_network_info(path)?
        .inspect_err(
            |error| tracing::warn!(file = %path.display(), reason = %error, "ignoring network info that cannot be parsed"),
        )
        .ok()
}

/// Waits until the downward API's file has the pod's network information, for [`NETWORK_INFO_TIMEOUT`] at most.
///
/// # Errors
/// [`NoAnswer`] if the file cannot be read in time.
pub(crate) async fn wait_for_network_info(path: &Path) -> Result<(), NoAnswer> {
    let begin = Instant::now();
    let what = "reading the pod's network information";
    loop {
        let path = path.to_owned();
        let read = move || has_network_info(&path);
        let is_there = blocking::file_call(what, READ_TIMEOUT, read).await?;
        if is_there || begin.elapsed() >= NETWORK_INFO_TIMEOUT {
            return Ok(());
        }
        tokio::time::sleep(NETWORK_INFO_POLL_INTERVAL).await;
    }
}

/// Whether the file describes the pod's interfaces.
fn has_network_info(path: &Path) -> bool {
    matches!(parse_network_info(path), Some(Ok(_)))
}

/// Parses the file; `None` if it is missing or empty, which means that the kubelet has not written it yet.
fn parse_network_info(path: &Path) -> Option<serde_json::Result<NetworkInfo>> {
    let file = File::open(path).ok()?;
    let mut text = String::new();
    file.take(MAX_NETWORK_INFO_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    (!text.trim().is_empty()).then(|| serde_json::from_str(&text))
}

#[cfg(test)]
mod tests;
