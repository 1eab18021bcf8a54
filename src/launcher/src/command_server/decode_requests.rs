//! Decodes protobuf messages into the launcher's types. Every message is destructured completely, so that the compiler
//! reports a field that KubeVirt adds.

#[cfg(test)]
mod tests;

use hook_host::{Plugins, PluginsError};
use kubevirt_api::migration_options::{MigrationOptions, MigrationOptionsError};
use kubevirt_api::virtual_machine_options::{
    Cell, ClusterConfig, Cpu, DiskInfo, InterfaceBindingMigration, MemoryAmount, Options, Pages,
    Sibling, Smbios, Topology,
};
use kubevirt_api::vmi::Vmi;
use proto::cmd::v1 as wire;

use crate::jobs::{MigrationJob, MigrationRefusal};
use crate::manager::SyncRequest;

/// A request is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    /// The VMI is invalid. The reason is logged; the caller gets KubeVirt's message.
    #[error("No valid vmi object present in command server request")]
    Vmi,
    /// The plugins are invalid.
    #[error(transparent)]
    Plugins(#[from] PluginsError),
    /// The options of a migration are invalid.
    #[error(transparent)]
    MigrationOptions(#[from] MigrationOptionsError),
    /// The migration is not allowed.
    #[error(transparent)]
    Migration(#[from] MigrationRefusal),
}

/// Decodes a VMI with its options and plugins.
pub(super) fn sync_request(request: wire::VmiRequest) -> Result<SyncRequest, DecodeError> {
    let wire::VmiRequest { vmi, options } = request;
    Ok(SyncRequest {
        vmi: self::vmi(vmi.as_ref())?,
        plugins: plugins(options.as_ref())?,
        options: self::options(options)?,
        allow_emulation: false,
    })
}

/// Decodes a migration request.
pub(super) fn migration(request: wire::MigrationRequest) -> Result<MigrationJob, DecodeError> {
    let wire::MigrationRequest { vmi, options } = request;
    let vmi = self::vmi(vmi.as_ref())?;
    Ok(MigrationJob::new(
        vmi,
        MigrationOptions::from_json(&options)?,
    )?)
}

/// Decodes the VMI in a request.
pub(super) fn vmi(vmi: Option<&wire::Vmi>) -> Result<Vmi, DecodeError> {
    let json = vmi.map(|vmi| vmi.vmi_json.as_slice()).unwrap_or_default();
    Vmi::from_json(json).map_err(|error| {
        tracing::error!(reason = %error, "a request came with an unusable VMI");
        DecodeError::Vmi
    })
}

/// Decodes the options in a request. A request without options has the default options.
fn options(options: Option<wire::VirtualMachineOptions>) -> Result<Options, DecodeError> {
    let Some(options) = options else {
        return Ok(Options::default());
    };
    let wire::VirtualMachineOptions {
        virtual_machine_sm_bios,
        mem_balloon_stats_period,
        preallocated_volumes,
        topology: node_topology,
        disks_info,
        expand_disks_enabled,
        cluster_config,
        interface_domain_attachment,
        interface_migration,
        plugins_json,
        grace_host_device_aliases,
    } = options;
    Ok(Options {
        smbios: virtual_machine_sm_bios.map(smbios),
        mem_balloon_stats_period,
        preallocated_volumes,
        topology: node_topology.map(topology),
        disks_info: disks_info
            .into_iter()
            .map(|(name, info)| (name, disk_info(info)))
            .collect(),
        expand_disks_enabled,
        cluster_config: cluster_config.map(cluster),
        interface_domain_attachment: interface_domain_attachment.into_iter().collect(),
        interface_migration: interface_migration
            .into_iter()
            .map(|(name, wire::InterfaceBindingMigration { method })| {
                (name, InterfaceBindingMigration { method })
            })
            .collect(),
        plugins_json: String::from_utf8_lossy(&plugins_json).into_owned(),
        grace_host_device_aliases,
    })
}

/// Decodes the plugins in a request. A request without options has no plugins.
fn plugins(options: Option<&wire::VirtualMachineOptions>) -> Result<Plugins, DecodeError> {
    let json = options.map(|options| options.plugins_json.as_slice());
    Ok(Plugins::parse(json.unwrap_or_default())?)
}

fn smbios(smbios: wire::SmBios) -> Smbios {
    let wire::SmBios {
        manufacturer,
        product,
        version,
        sku,
        family,
    } = smbios;
    Smbios {
        manufacturer,
        product,
        version,
        sku,
        family,
    }
}

fn topology(topology: wire::Topology) -> Topology {
    let wire::Topology { numa_cells } = topology;
    Topology {
        numa_cells: numa_cells.into_iter().map(cell).collect(),
    }
}

fn cell(cell: wire::Cell) -> Cell {
    let wire::Cell {
        id,
        memory,
        pages,
        distances,
        cpus,
    } = cell;
    Cell {
        id,
        memory: memory.map(|wire::Memory { amount, unit }| MemoryAmount { amount, unit }),
        pages: pages
            .into_iter()
            .map(|wire::Pages { count, unit, size }| Pages { count, unit, size })
            .collect(),
        distances: distances
            .into_iter()
            .map(|wire::Sibling { id, value }| Sibling { id, value })
            .collect(),
        cpus: cpus
            .into_iter()
            .map(|wire::Cpu { id, siblings }| Cpu { id, siblings })
            .collect(),
    }
}

fn disk_info(info: wire::DiskInfo) -> DiskInfo {
    let wire::DiskInfo {
        format,
        backing_file,
        actual_size,
        virtual_size,
    } = info;
    DiskInfo {
        format,
        backing_file,
        actual_size,
        virtual_size,
    }
}

fn cluster(config: wire::ClusterConfig) -> ClusterConfig {
    let wire::ClusterConfig {
        expand_disks_enabled,
        free_page_reporting_disabled,
        bochs_display_for_efi_guests,
        serial_console_log_disabled,
        pcinuma_aware_topology_enabled,
        vgpu_live_migration_enabled,
        grace_io_virtualization_enabled,
    } = config;
    ClusterConfig {
        expand_disks_enabled,
        free_page_reporting_disabled,
        bochs_display_for_efi_guests,
        serial_console_log_disabled,
        pci_numa_aware_topology_enabled: pcinuma_aware_topology_enabled,
        vgpu_live_migration_enabled,
        grace_io_virtualization_enabled,
    }
}
