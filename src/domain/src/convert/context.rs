//! What every step of the conversion needs.

use std::collections::{HashMap, HashSet};

use super::launch_security::Protection;
use super::{ConvertError, cpu};
use crate::host::HostFacts;
use crate::options::{ClusterConfig, Options};
use crate::spec::CpuTopology;
use crate::vmi::{Devices, Vmi, Volume, VolumeStatus};

/// The inputs of a conversion, and what follows from them for more than one step.
pub(super) struct Context<'a> {
    pub(super) vmi: &'a Vmi,
    pub(super) options: &'a Options,
    pub(super) host: &'a HostFacts,
    pub(super) cluster: ClusterConfig,
    /// Model of every virtio device.
    pub(super) virtio_model: &'static str,
    /// Processors at boot.
    pub(super) topology: CpuTopology,
    /// Product of the topology.
    pub(super) vcpus: u32,
    /// What protects the guest from the host.
    pub(super) protection: Protection,
    /// Places of volumes; the last of a name counts.
    pub(super) volumes: HashMap<&'a str, usize>,
    /// What the cluster has recorded of volumes.
    pub(super) volume_status: HashMap<&'a str, &'a VolumeStatus>,
    /// Volumes that are not hotplugged are attached already.
    pub(super) has_permanent_volumes: bool,
    preallocated: HashSet<&'a str>,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        vmi: &'a Vmi,
        options: &'a Options,
        host: &'a HostFacts,
    ) -> Result<Self, ConvertError> {
        let topology = cpu::boot_topology(vmi)?;
        Ok(Self {
            vmi,
            options,
            host,
            cluster: options.cluster(),
            virtio_model: vmi.virtio_model(),
            vcpus: cpu::count(&topology)?,
            topology,
            protection: Protection::of(vmi.spec.domain.launch_security.as_ref()),
            volumes: index(&vmi.spec.volumes),
            volume_status: recorded(&vmi.status.volume_status),
            has_permanent_volumes: vmi
                .status
                .volume_status
                .iter()
                .any(|status| status.hotplug_volume.is_none()),
            preallocated: options
                .preallocated_volumes
                .iter()
                .map(String::as_str)
                .collect(),
        })
    }

    pub(super) fn devices(&self) -> &'a Devices {
        &self.vmi.spec.domain.devices
    }

    /// libvirt's `iommu` of a virtio device; empty where it is not needed.
    pub(super) fn iommu(&self) -> String {
        if self.protection.encrypts_memory() {
            "on".into()
        } else {
            String::new()
        }
    }

    pub(super) fn has_dedicated_cpus(&self) -> bool {
        let cpu = self.vmi.spec.domain.cpu.as_ref();
        cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement)
    }

    /// Where libvirt keeps what belongs to a guest.
    pub(super) fn libvirt_directory(&self) -> &'static str {
        if self.vmi.is_non_root() {
            "/var/run/kubevirt-private/libvirt/qemu"
        } else {
            "/var/lib/libvirt/qemu"
        }
    }

    /// Huge pages, dedicated processors or realtime: throughput goes before thrift.
    pub(super) fn is_high_performance(&self) -> bool {
        let domain = &self.vmi.spec.domain;
        domain
            .cpu
            .as_ref()
            .is_some_and(|cpu| cpu.dedicated_cpu_placement || cpu.realtime.is_some())
            || self.has_hugepages()
    }

    pub(super) fn has_hugepages(&self) -> bool {
        self.vmi
            .spec
            .domain
            .memory
            .as_ref()
            .is_some_and(|memory| memory.hugepages.is_some())
    }

    /// virtiofsd or passt reads the guest's memory.
    pub(super) fn shares_memory(&self) -> bool {
        self.devices()
            .filesystems
            .iter()
            .any(|filesystem| filesystem.virtiofs.is_some())
            || self
                .devices()
                .interfaces
                .iter()
                .any(|interface| interface.passt_binding.is_some())
    }

    pub(super) fn discards(&self, volume: &str) -> bool {
        !self.preallocated.contains(volume)
    }

    pub(super) fn is_block(&self, volume: &str) -> bool {
        self.volume_status
            .get(volume)
            .and_then(|status| status.persistent_volume_claim_info.as_ref())
            .is_some_and(|claim| claim.volume_mode.as_deref() == Some("Block"))
    }
}

fn index(volumes: &[Volume]) -> HashMap<&str, usize> {
    let places = volumes.iter().enumerate();
    places
        .map(|(place, volume)| (volume.name.as_str(), place))
        .collect()
}

fn recorded(statuses: &[VolumeStatus]) -> HashMap<&str, &VolumeStatus> {
    let statuses = statuses.iter();
    statuses
        .map(|status| (status.name.as_str(), status))
        .collect()
}

/// libvirt's `yes` and `no`.
pub(super) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}

/// libvirt's `on` and `off`.
pub(super) fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.into()
}
