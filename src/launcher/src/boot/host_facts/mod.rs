//! Reads the host facts that conversion needs: most are probed at start-up, others when a VMI needs them.

mod block_sizes;
mod device_plugin_variables;
mod dra_device_metadata;
mod host_query;
mod iommufd;
mod network_info;
mod pod_device_numa_nodes;
#[cfg(test)]
mod tests;

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use domain::convert::VolumeModeLookup;
use domain::host_facts::HostFacts;
use tokio::time::Instant;

use crate::blocking::{self, NoAnswer};
use crate::cgroup_cpuset::cgroup_cpus;
use crate::config::Config;
use crate::sysfs_numa::Sysfs;
pub(crate) use host_query::HostQuery;
pub(crate) use iommufd::{IommuFd, IommuFdError};

/// How long reading local files and devices may take; it normally takes milliseconds.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for the pod's network information. The kubelet writes the addresses of new interfaces a moment
/// after virt-handler has seen them.
const NETWORK_INFO_TIMEOUT: Duration = Duration::from_secs(1);
const NETWORK_INFO_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Probes the node at start-up.
pub(crate) fn probe(config: &Config) -> HostFacts {
    let path_text = |path: &Path| path.to_string_lossy().into_owned();
    HostFacts {
        architecture: domain::host_facts::go_architecture(std::env::consts::ARCH).to_owned(),
        allow_emulation: config.flags.allow_emulation,
        kvm_available: is_usable(&Path::new("/dev").join(device_name(&config.flags.hypervisor))),
        hypervisor: config.flags.hypervisor.clone(),
        cpuset: cpuset(),
        ovmf_path: path_text(&config.flags.ovmf_path),
        ephemeral_disk_dir: path_text(&config.paths.ephemeral_disks),
        container_disk_dir: path_text(&config.paths.container_disks),
        firmware_files: names_in(&config.flags.ovmf_path),
        firmware_auto_selection: config.flags.firmware_auto_selection,
        network_info: network_info::read_network_info(&config.paths.network_info),
        device_plugins: device_plugin_variables::filter_by_prefix(std::env::vars_os()),
        serves_migration_hook: config.flags.libvirt_hook_server_and_client,
        log_verbosity: config.verbosity.into(),
        ..HostFacts::default()
    }
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
        let read = move || network_info::has_network_info(&path);
        let is_there = blocking::file_call(what, READ_TIMEOUT, read).await?;
        if is_there || begin.elapsed() >= NETWORK_INFO_TIMEOUT {
            return Ok(());
        }
        tokio::time::sleep(NETWORK_INFO_POLL_INTERVAL).await;
    }
}

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

/// The names of the files in a directory; `None` if it cannot be read.
fn names_in(directory: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(directory).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Some(names.collect())
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
