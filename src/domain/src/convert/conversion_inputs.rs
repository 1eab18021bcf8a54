//! `Context`: the inputs of a conversion, for all its steps.

use std::collections::{HashMap, HashSet};

use kubevirt_api::virtual_machine_options::{ClusterConfig, Options};
use kubevirt_api::vmi::{Devices, Vmi, Volume, VolumeStatus};

use crate::convert::arch::guest_protection::Protection;
use crate::convert::arch::{self, Architecture};
use crate::convert::conversion_purpose::Purpose;
use crate::convert::cpu_topology;
use crate::convert::error::ConvertError;
use crate::host_facts::HostFacts;
use crate::kubevirt_version::Behaviour;
use crate::libvirt_spec::CpuTopology;

/// The inputs of a conversion, and values that several steps derive from them.
pub(crate) struct Context<'a> {
    pub(crate) vmi: &'a Vmi,
    pub(crate) options: &'a Options,
    pub(crate) host: &'a HostFacts,
    pub(crate) cluster: ClusterConfig,
    pub(crate) purpose: Purpose,
    pub(crate) architecture: &'static dyn Architecture,
    /// libvirt's model of every virtio device.
    pub(crate) virtio_model: &'static str,
    /// The CPU topology at boot.
    pub(crate) topology: CpuTopology,
    /// The number of vCPUs in the topology.
    pub(crate) vcpus: u32,
    /// How the guest is protected from the host.
    pub(crate) protection: Protection,
    /// Indices of volumes by name. The last volume of a name has precedence.
    pub(crate) volumes: HashMap<&'a str, usize>,
    /// The cluster's status of each volume.
    pub(crate) volume_status: HashMap<&'a str, &'a VolumeStatus>,
    /// Whether the VMI's status lists a volume that is not hotplugged. Without one, a disk is added whatever its volume's
    /// status is.
    pub(crate) has_permanent_volumes: bool,
    preallocated_volumes: HashSet<&'a str>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        vmi: &'a Vmi,
        options: &'a Options,
        host: &'a HostFacts,
        purpose: Purpose,
    ) -> Result<Self, ConvertError> {
        let topology = cpu_topology::boot_topology(vmi)?;
        let vcpus = cpu_topology::count(&topology)?;
        let architecture = arch::guest_architecture(vmi, host)?;
        let security = vmi.spec.domain.launch_security.as_ref();
        let protection = security.map_or(Ok(Protection::None), |security| {
            architecture.protection(security)
        })?;
        Ok(Self {
            vmi,
            options,
            host,
            cluster: options.cluster(),
            purpose,
            architecture,
            virtio_model: architecture.virtio_model(vmi.is_virtio_transitional()),
            vcpus,
            topology,
            protection,
            volumes: volume_indices(&vmi.spec.volumes),
            volume_status: statuses_by_volume(&vmi.status.volume_status),
            has_permanent_volumes: vmi
                .status
                .volume_status
                .iter()
                .any(|status| status.hotplug_volume.is_none()),
            preallocated_volumes: options
                .preallocated_volumes
                .iter()
                .map(String::as_str)
                .collect(),
        })
    }

    pub(crate) fn behaviour(&self) -> Behaviour {
        self.host.behaviour()
    }

    /// Whether the guest has another architecture than the node, so that QEMU emulates its processor.
    pub(crate) fn is_cross_architecture(&self) -> bool {
        self.architecture.name() != self.host.architecture
    }

    pub(crate) fn devices(&self) -> &'a Devices {
        &self.vmi.spec.domain.devices
    }

    /// libvirt's `iommu` attribute of a virtio device; empty if it is not needed.
    pub(crate) fn iommu(&self) -> String {
        if self.protection.hides_memory() {
            "on".into()
        } else {
            String::new()
        }
    }

    pub(crate) fn has_dedicated_cpus(&self) -> bool {
        let cpu = self.vmi.spec.domain.cpu.as_ref();
        cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement)
    }

    /// Whether the VMI requests huge pages, dedicated CPUs or realtime scheduling.
    pub(crate) fn is_high_performance(&self) -> bool {
        let domain = &self.vmi.spec.domain;
        domain
            .cpu
            .as_ref()
            .is_some_and(|cpu| cpu.dedicated_cpu_placement || cpu.realtime.is_some())
            || self.has_hugepages()
    }

    pub(crate) fn has_hugepages(&self) -> bool {
        self.vmi
            .spec
            .domain
            .memory
            .as_ref()
            .is_some_and(|memory| memory.hugepages.is_some())
    }

    /// Whether virtiofsd or passt maps the guest's memory.
    pub(crate) fn shares_memory(&self) -> bool {
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

    /// Whether unused blocks of the volume are discarded, as its image is not preallocated.
    pub(crate) fn discards(&self, volume: &str) -> bool {
        !self.preallocated_volumes.contains(volume)
    }

    /// Whether the volume is a block device.
    pub(crate) fn is_block(&self, volume: &str) -> bool {
        let status = self.volume_status.get(volume).copied();
        self.host.is_block(volume, status)
    }
}

fn volume_indices(volumes: &[Volume]) -> HashMap<&str, usize> {
    let volumes = volumes.iter().enumerate();
    volumes
        .map(|(index, volume)| (volume.name.as_str(), index))
        .collect()
}

fn statuses_by_volume(statuses: &[VolumeStatus]) -> HashMap<&str, &VolumeStatus> {
    let statuses = statuses.iter();
    statuses
        .map(|status| (status.name.as_str(), status))
        .collect()
}
