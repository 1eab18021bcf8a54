//! The host facts that conversion needs: most are probed at start-up, others when a VMI needs them
//! ([`vmi_host_query`]).

mod block_sizes;
mod device_plugin_variables;
mod dra_device_metadata;
mod iommufd_from_device_plugin;
mod network_info;
mod pod_cpuset;
mod pod_device_numa_nodes;
#[cfg(test)]
mod tests;
mod vmi_host_query;
mod volume_modes;

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use domain::host_facts::HostFacts;

use crate::config::Config;
pub(crate) use iommufd_from_device_plugin::{IommuFd, IommuFdError};
pub(crate) use network_info::wait_for_network_info;
use pod_cpuset::cpuset;
pub(crate) use pod_cpuset::with_current_cpus;
pub(crate) use vmi_host_query::HostQuery;
pub(crate) use volume_modes::with_volume_modes;

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

/// The names of the files in a directory; `None` if it cannot be read.
fn names_in(directory: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(directory).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Some(names.collect())
}
