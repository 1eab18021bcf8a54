//! Facts about the node that conversion needs, probed once.

mod block_sizes;
mod network_info;
mod pod_device_numa;
mod pod_devices;
mod receive_iommufd;
mod resource_claims;
#[cfg(test)]
mod tests;

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use domain::convert::{BlockSizeLookup, ConvertError, VolumeModeLookup, block_size_lookups};
use domain::host_facts::HostFacts;
use domain::resource_claims::{ClaimedRequest, claimed_requests};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use tokio::time::Instant;

use crate::blocking::{self, NoAnswer};
use crate::config::Config;
use crate::sysfs_numa_and_cpus::Sysfs;
pub(crate) use receive_iommufd::{IommuFd, IommuFdError};

/// Local files and devices are read within milliseconds.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The kubelet writes the addresses of new interfaces a moment after virt-handler has seen them.
const NETWORK_INFO_TIMEOUT: Duration = Duration::from_secs(1);
const NETWORK_INFO_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Probes the node.
pub(crate) fn probe(config: &Config) -> HostFacts {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    HostFacts {
        architecture: domain::host_facts::go_architecture(std::env::consts::ARCH).to_owned(),
        allow_emulation: config.flags.allow_emulation,
        kvm_available: is_usable(&Path::new("/dev").join(device(&config.flags.hypervisor))),
        hypervisor: config.flags.hypervisor.clone(),
        cpuset: cpuset(),
        ovmf_path: text(&config.flags.ovmf_path),
        ephemeral_disk_dir: text(&config.paths.ephemeral_disks),
        container_disk_dir: text(&config.paths.container_disks),
        firmware_files: names_in(&config.flags.ovmf_path),
        firmware_auto_selection: config.flags.firmware_auto_selection,
        network_info: network_info::network_info(&config.paths.network_info),
        device_plugins: pod_devices::plugins(std::env::vars_os()),
        serves_migration_hook: config.flags.libvirt_hook_server_and_client,
        log_verbosity: config.verbosity.into(),
        ..HostFacts::default()
    }
}

/// Waits until the pod's network information has arrived in the downward API's file, for
/// [`NETWORK_INFO_TIMEOUT`] at most.
///
/// # Errors
/// [`NoAnswer`] if the file cannot be read in time.
pub(crate) async fn wait_for_network_info(path: &Path) -> Result<(), NoAnswer> {
    let begin = Instant::now();
    let what = "reading the pod's network information";
    loop {
        let path = path.to_owned();
        let read = move || network_info::has_network_info(&path);
        let is_there = blocking::file_call(what, READ_TIMEOUT, read).await?;
        if is_there || begin.elapsed() >= NETWORK_INFO_TIMEOUT {
            return Ok(());
        }
        tokio::time::sleep(NETWORK_INFO_POLL_INTERVAL).await;
    }
}

/// The facts with the processors that the pod may use now.
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

/// The facts with the volume modes that claims have in this pod.
///
/// # Errors
/// [`NoAnswer`] if the file system hangs.
pub(crate) async fn with_volume_modes(
    mut facts: HostFacts,
    claims: Vec<VolumeModeLookup>,
) -> Result<HostFacts, NoAnswer> {
    let is_block = |claim: &VolumeModeLookup| {
        let metadata = fs::metadata(&claim.block_path);
        metadata.is_ok_and(|metadata| metadata.file_type().is_block_device())
    };
    let is_image = |claim: &VolumeModeLookup| {
        let metadata = claim.image_path.as_ref().map(fs::metadata);
        metadata.is_some_and(|metadata| metadata.is_ok_and(|metadata| metadata.is_file()))
    };
    let look_up = move || {
        let (devices, others): (Vec<_>, Vec<_>) = claims.into_iter().partition(is_block);
        let images = others.into_iter().filter(is_image);
        facts.image_volumes = images.map(|claim| claim.volume).collect();
        facts.block_volumes = devices.into_iter().map(|claim| claim.volume).collect();
        facts
    };
    blocking::file_call("looking for volumes", READ_TIMEOUT, look_up).await
}

/// Facts that only some VMIs need or that change while the pod lives: the devices behind resource claims, block sizes of
/// volumes, addresses of SR-IOV interfaces, processors of the pod.
pub(crate) struct HostQuery {
    has_sriov: bool,
    has_dedicated_cpus: bool,
    /// PCI devices are placed by their NUMA nodes.
    places_devices: bool,
    claims: Vec<ClaimedRequest>,
    volumes: Vec<BlockSizeLookup>,
}

impl HostQuery {
    /// The facts that this VMI needs.
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
            places_devices: has_dedicated_cpus && options.cluster().pci_numa_aware_topology_enabled,
            claims: claimed_requests(vmi),
            volumes: block_size_lookups(vmi, options, facts)?,
        })
    }

    /// Whether the VMI needs none of these facts.
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty()
            && self.volumes.is_empty()
            && !self.has_sriov
            && !self.has_dedicated_cpus
    }

    /// Adds the facts, or the reason why a fact is missing; `network_info` is the downward API's file. Blocking: volumes
    /// may lie on slow storage.
    pub(crate) fn answer(self, mut facts: HostFacts, network_info: &Path) -> HostFacts {
        if self.has_sriov {
            facts.network_info = network_info::network_info(network_info);
        }
        if self.has_dedicated_cpus {
            facts.cpuset = cpuset();
        }
        facts.claimed_devices =
            resource_claims::devices(Path::new(resource_claims::METADATA), &self.claims);
        if self.places_devices {
            pod_device_numa::add_numa_nodes(&mut facts, &Sysfs::default());
        }
        for volume in self.volumes {
            match block_sizes::read(&volume) {
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

fn device(hypervisor: &str) -> &str {
    match hypervisor {
        "hyperv-direct" => "mshv",
        other => other,
    }
}

/// Whether the device can be opened. Sandboxes mask devices with regular files.
fn is_usable(device: &Path) -> bool {
    let opened = fs::OpenOptions::new().read(true).write(true).open(device);
    let metadata = opened.and_then(|file| file.metadata());
    metadata.is_ok_and(|metadata| metadata.file_type().is_char_device())
}

/// The names in a directory, if it can be read.
fn names_in(directory: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(directory).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Some(names.collect())
}

fn cpuset() -> Vec<u32> {
    let cpus = Sysfs::default().cgroup_cpus();
    if cpus.is_empty() { affinity() } else { cpus }
}

fn affinity() -> Vec<u32> {
    let set = rustix::thread::sched_getaffinity(None).ok();
    let Some(set) = set else { return Vec::new() };
    (0..1024u32)
        .filter(|cpu| set.is_set(*cpu as usize))
        .collect()
}
