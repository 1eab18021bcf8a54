//! Facts about the node that conversion needs, probed once.

mod block_sizes;
mod iommufd;
mod pod_devices;
mod resource_claims;

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use domain::convert::{ConvertError, MatchedVolume, matched_volumes};
use domain::host::HostFacts;
use domain::resource_claims::{ClaimedRequest, claimed_requests};
use kubevirt_api::options::Options;
use kubevirt_api::vmi::Vmi;

use crate::config::Config;
pub(crate) use iommufd::{IommuFd, IommuFdError};

/// Where the pod's processors are listed: cgroup v2, then v1.
const CPUSETS: [&str; 2] = [
    "/sys/fs/cgroup/cpuset.cpus.effective",
    "/sys/fs/cgroup/cpuset/cpuset.cpus",
];

/// Probes the node.
pub(crate) fn probe(config: &Config) -> HostFacts {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let device_plugins = pod_devices::plugins(std::env::vars_os());
    HostFacts {
        architecture: go_architecture().to_owned(),
        allow_emulation: config.flags.allow_emulation,
        kvm_available: is_usable(&Path::new("/dev").join(device(&config.flags.hypervisor))),
        hypervisor: config.flags.hypervisor.clone(),
        cpuset: cpuset(),
        ovmf_path: text(&config.flags.ovmf_path),
        ephemeral_disk_dir: text(&config.paths.ephemeral_disks),
        container_disk_dir: text(&config.paths.container_disks),
        firmware_files: names_in(&config.flags.ovmf_path),
        firmware_auto_selection: config.flags.firmware_auto_selection,
        network_info: pod_devices::network_info(&config.paths.network_info),
        device_numa_nodes: pod_devices::numa_nodes(&device_plugins),
        numa_cpus: pod_devices::numa_cpus(&device_plugins, cpu_list),
        device_plugins,
        log_verbosity: config.verbosity.into(),
        ..HostFacts::default()
    }
}

/// Whether the pod's network information has arrived: the kubelet writes it when the pod has interfaces.
pub(crate) fn has_network_info(path: &Path) -> bool {
    pod_devices::network_info(path).is_some()
}

/// Facts that only some VMIs need or that change while the pod lives: the devices behind resource claims, block sizes of
/// volumes, addresses of SR-IOV interfaces, processors of the pod.
pub(crate) struct HostQuery {
    has_sriov: bool,
    has_dedicated_cpus: bool,
    claims: Vec<ClaimedRequest>,
    volumes: Vec<MatchedVolume>,
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
        Ok(Self {
            has_sriov: interfaces.any(|interface| interface.sriov.is_some()),
            has_dedicated_cpus: cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement),
            claims: claimed_requests(vmi),
            volumes: matched_volumes(vmi, options, facts)?,
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
            facts.network_info = pod_devices::network_info(network_info);
        }
        if self.has_dedicated_cpus {
            facts.cpuset = cpuset();
        }
        facts.claimed_devices =
            resource_claims::devices(Path::new(resource_claims::METADATA), &self.claims);
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

/// Kubernetes names architectures as Go does.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn cpuset() -> Vec<u32> {
    let listed = CPUSETS
        .iter()
        .find_map(|path| fs::read_to_string(path).ok());
    let cpus = listed.map(|text| cpu_list(&text)).unwrap_or_default();
    if cpus.is_empty() { affinity() } else { cpus }
}

fn affinity() -> Vec<u32> {
    let set = rustix::thread::sched_getaffinity(None).ok();
    let Some(set) = set else { return Vec::new() };
    (0..1024u32)
        .filter(|cpu| set.is_set(*cpu as usize))
        .collect()
}

/// `0-3,8`: the kernel's list format. What is malformed is left out.
fn cpu_list(text: &str) -> Vec<u32> {
    const MOST: u32 = 65_536;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (last < MOST).then_some(first..=last)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed() {
        assert_eq!(cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(cpu_list("5"), [5]);
        assert_eq!(cpu_list("\n"), [0u32; 0]);
        assert_eq!(cpu_list("x,1-,2-4294967295,7"), [7]);
    }

    #[test]
    fn regular_file_is_no_device() {
        assert!(is_usable(Path::new("/dev/null")));
        assert!(!is_usable(Path::new("/etc/passwd")));
        assert!(!is_usable(Path::new("/nonexistent")));
    }

    #[test]
    fn cpuset_is_not_empty() {
        assert!(!cpuset().is_empty());
    }
}
