//! Tagged devices and their PCI addresses, for ConfigDrive's meta_data.json.

use std::collections::BTreeMap;

use kubevirt_api::vmi::Vmi;

use crate::cloud_init::instance_metadata::DeviceData;
use crate::host_numa_topology::HostTopology;
use crate::libvirt_spec::{Address, Alias, DomainSpec, HostDevice, SRIOV_ALIAS};

/// The tagged devices of a *defined* domain: `spec` is parsed from libvirt's XML, which contains the
/// addresses. Interfaces come first, then host devices, each in the domain's order; devices without a PCI
/// address are left out. `None` if no device is tagged.
pub fn metadata(
    vmi: &Vmi,
    spec: &DomainSpec,
    topology: &dyn HostTopology,
) -> Option<Vec<DeviceData>> {
    let tags = Tags::from_vmi(vmi);
    let mut devices = Vec::new();
    for interface in &spec.devices.interfaces {
        let name = interface
            .alias
            .as_ref()
            .map(|alias| alias.name.as_str())
            .unwrap_or_default();
        if let Some(tag) = tags.interfaces.get(name) {
            let mac = interface
                .mac
                .as_ref()
                .map(|mac| mac.mac.clone())
                .unwrap_or_default();
            devices.extend(
                device("nic", interface.address.as_ref(), tag)
                    .map(|data| DeviceData { mac, ..data }),
            );
        }
    }
    for host_device in &spec.devices.host_devices {
        let Some((kind, tag)) = tags.kind_and_tag(host_device.alias.as_ref()) else {
            continue;
        };
        let data = device(kind, host_device.address.as_ref(), tag);
        devices.extend(data.map(|data| with_numa_affinity(data, vmi, spec, host_device, topology)));
    }
    (!devices.is_empty()).then_some(devices)
}

/// The tags of the VMI's devices, by device name.
struct Tags {
    interfaces: BTreeMap<String, String>,
    host_devices: BTreeMap<String, String>,
    gpus: BTreeMap<String, String>,
}

impl Tags {
    fn from_vmi(vmi: &Vmi) -> Self {
        let interfaces = vmi.spec.domain.devices.interfaces.iter();
        Self {
            interfaces: interfaces
                .filter(|interface| !interface.tag.is_empty())
                .map(|interface| (interface.name.clone(), interface.tag.clone()))
                .collect(),
            host_devices: tags_in_list(vmi, "hostDevices"),
            gpus: tags_in_list(vmi, "gpus"),
        }
    }

    fn kind_and_tag(&self, alias: Option<&Alias>) -> Option<(&'static str, &str)> {
        let name = alias?.name.as_str();
        [
            (SRIOV_ALIAS, "nic", &self.interfaces),
            ("hostdevice-", "hostdev", &self.host_devices),
            ("gpu-", "hostdev", &self.gpus),
        ]
        .into_iter()
        .find_map(|(prefix, kind, tags)| {
            let tag = tags.get(name.strip_prefix(prefix)?)?;
            Some((kind, tag.as_str()))
        })
    }
}

fn tags_in_list(vmi: &Vmi, list: &str) -> BTreeMap<String, String> {
    let devices = vmi
        .value()
        .pointer(&format!("/spec/domain/devices/{list}"))
        .and_then(|devices| devices.as_array());
    let text =
        |device: &serde_json::Value, field: &str| device.get(field)?.as_str().map(str::to_owned);
    devices
        .into_iter()
        .flatten()
        .filter_map(|device| Some((text(device, "name")?, text(device, "tag")?)))
        .filter(|(_, tag)| !tag.is_empty())
        .collect()
}

fn device(kind: &str, address: Option<&Address>, tag: &str) -> Option<DeviceData> {
    let address = address?;
    Some(DeviceData {
        kind: kind.to_owned(),
        bus: address.kind.clone(),
        address: pci_address(address)?,
        tags: vec![tag.to_owned()],
        ..DeviceData::default()
    })
}

/// The address as `0000:01:00.0`, from libvirt's four hexadecimal numbers.
fn pci_address(address: &Address) -> Option<String> {
    let digits = |text: &'_ str| {
        text.strip_prefix("0x")
            .filter(|digits| !digits.is_empty())
            .map(str::to_owned)
    };
    Some(format!(
        "{}:{}:{}.{}",
        digits(&address.domain)?,
        digits(&address.bus)?,
        digits(&address.slot)?,
        digits(&address.function)?
    ))
}

/// Adds the host NUMA node if the guest gets the host's NUMA topology, else the vCPUs that are pinned to that node.
fn with_numa_affinity(
    mut data: DeviceData,
    vmi: &Vmi,
    spec: &DomainSpec,
    device: &HostDevice,
    topology: &dyn HostTopology,
) -> DeviceData {
    let Some(cpu) = &vmi.spec.domain.cpu else {
        return data;
    };
    let Some(source) = device.source.address.as_ref().and_then(pci_address) else {
        return data;
    };
    let Some(node) = topology.numa_node(&source) else {
        return data;
    };
    if cpu
        .numa
        .as_ref()
        .is_some_and(|numa| numa.guest_mapping_passthrough.is_some())
    {
        data.numa_node = node;
    } else if cpu.dedicated_cpu_placement {
        data.aligned_cpus = vcpus_pinned_to(spec, &topology.node_cpus(node));
    }
    data
}

fn vcpus_pinned_to(spec: &DomainSpec, host_cpus: &[u32]) -> Vec<u32> {
    let Some(tune) = &spec.cpu_tune else {
        return Vec::new();
    };
    host_cpus
        .iter()
        .filter_map(|cpu| {
            tune.vcpu_pin
                .iter()
                .find(|pin| pin.cpuset == cpu.to_string())
        })
        .map(|pin| pin.vcpu)
        .collect()
}
