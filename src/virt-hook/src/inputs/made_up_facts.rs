//! Facts that only a node or a pod knows, made up where they are missing, so that a VM with GPUs, host devices or dedicated
//! CPUs can be shown on any machine.

use std::collections::BTreeMap;

use domain::host_facts::{
    ClaimedDevice, DeviceInfo, HostFacts, NetworkInfo, NetworkInterface, PciDevice,
};
use kubevirt_api::virtual_machine_options::{
    Cell, Cpu, MemoryAmount, Options, Pages, Sibling, Topology,
};
use kubevirt_api::vmi::Vmi;

use super::vm_manifest::Note;

/// The prefixes of the environment variables of device plugins.
const PCI: &str = "PCI_RESOURCE_";
const MEDIATED: &str = "MDEV_PCI_RESOURCE_";
const USB: &str = "USB_RESOURCE_";
/// The first bus of made-up PCI addresses, and the devices on a bus.
const FIRST_BUS: u32 = 0x65;
const DEVICES_PER_BUS: u32 = 32;
/// CPUs of a made-up node for threads beside the vCPUs.
const EMULATOR_CPUS: u64 = 2;
/// Maximum number of CPUs of a made-up node. Conversion refuses VMs with more.
const MAX_CPUS: u64 = 8192;
const NODE_MEMORY_KIB: u64 = 1 << 30;
const PAGE_KIB: u32 = 2048;
const MULTUS_STATUS: &str = "multus-status";
/// The end of notes about made-up facts.
const WAY_OUT: &str = "give others with --host, for which `virt-hook host-facts` writes a template";

/// Completes facts and options for a VMI, and returns a note for each kind of facts that was made up.
pub(super) fn complete(vmi: &Vmi, options: &mut Options, facts: &mut HostFacts) -> Vec<Note> {
    let mut addresses = MadeUpAddresses::default();
    let mut notes = Vec::new();
    notes.extend(complete_device_plugins(vmi, facts, &mut addresses));
    notes.extend(complete_claimed_devices(vmi, facts, &mut addresses));
    if sriov_networks(vmi, true).next().is_some() {
        notes.extend(add_networks(vmi, true, facts, &mut addresses));
    }
    notes.extend(complete_cpus(vmi, options, facts));
    notes
}

/// Adds addresses for all SR-IOV interfaces, also those that are not attached yet: for a template of host facts.
pub(super) fn complete_networks(vmi: &Vmi, facts: &mut HostFacts) {
    let mut addresses = MadeUpAddresses {
        next: DEVICES_PER_BUS,
    };
    add_networks(vmi, false, facts, &mut addresses);
}

/// PCI addresses and UUIDs that no node has.
#[derive(Debug, Default)]
struct MadeUpAddresses {
    next: u32,
}

impl MadeUpAddresses {
    fn pci(&mut self) -> String {
        let (bus, device) = (self.next / DEVICES_PER_BUS, self.next % DEVICES_PER_BUS);
        self.next += 1;
        format!("0000:{:02x}:{device:02x}.0", (FIRST_BUS + bus) % 0x100)
    }

    fn uuid(&mut self) -> String {
        self.next += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.next)
    }
}

/// Gives each resource of GPUs and host devices as many addresses as the VMI has devices of it.
fn complete_device_plugins(
    vmi: &Vmi,
    facts: &mut HostFacts,
    addresses: &mut MadeUpAddresses,
) -> Option<Note> {
    let devices = &vmi.spec.domain.devices;
    // The number of devices by resource, and whether the resource is of mediated devices.
    let mut wanted: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    let gpus = devices
        .gpus
        .iter()
        .map(|gpu| (gpu.device_name.as_str(), gpu.virtual_gpu_options.is_some()));
    let others = devices
        .host_devices
        .iter()
        .map(|device| (device.device_name.as_str(), false));
    for (resource, is_mediated) in gpus
        .chain(others)
        .filter(|(resource, _)| !resource.is_empty())
    {
        let (count, any_mediated) = wanted.entry(resource).or_default();
        *count += 1;
        *any_mediated |= is_mediated;
    }
    let mut made_up = Vec::new();
    for (resource, (count, is_mediated)) in wanted {
        let name = resource.to_uppercase().replace(['/', '.'], "_");
        let variables = [PCI, MEDIATED, USB].map(|prefix| format!("{prefix}{name}"));
        let known = variables
            .iter()
            .find(|variable| facts.device_plugins.contains_key(*variable));
        let variable = known
            .unwrap_or(&variables[usize::from(is_mediated)])
            .clone();
        let known = facts.device_plugins.get(&variable);
        let mut values: Vec<String> = known
            .map(|known| known.split(',').map(str::to_owned).collect())
            .unwrap_or_default();
        values.retain(|value| !value.is_empty());
        if values.len() >= count || variable.starts_with(USB) {
            continue;
        }
        while values.len() < count {
            values.push(match variable.starts_with(MEDIATED) {
                true => addresses.uuid(),
                false => addresses.pci(),
            });
        }
        made_up.push(format!("{variable} {}", values.join(",")));
        facts.device_plugins.insert(variable, values.join(","));
    }
    (!made_up.is_empty()).then(|| {
        Note::differs(
            "device plugins",
            format!(
                "addresses of GPUs and host devices are made up (devicePlugins): {}; {WAY_OUT}",
                made_up.join(", ")
            ),
        )
    })
}

/// Gives each request in a resource claim a device.
fn complete_claimed_devices(
    vmi: &Vmi,
    facts: &mut HostFacts,
    addresses: &mut MadeUpAddresses,
) -> Option<Note> {
    let devices = &vmi.spec.domain.devices;
    let gpus = devices
        .gpus
        .iter()
        .map(|gpu| (gpu.claim_name.as_ref(), gpu.request_name.as_ref()));
    let others = devices
        .host_devices
        .iter()
        .map(|device| (device.claim_name.as_ref(), device.request_name.as_ref()));
    let networks = vmi.spec.networks.iter().filter_map(|network| {
        let request = network.resource_claim.as_ref()?;
        Some((Some(&request.claim_name), Some(&request.request_name)))
    });
    let mut made_up = Vec::new();
    for (claim, request) in gpus.chain(others).chain(networks) {
        let (Some(claim), Some(request)) = (claim, request) else {
            continue;
        };
        let requests = facts.claimed_devices.entry(claim.clone()).or_default();
        if !requests.contains_key(request) {
            let device = ClaimedDevice {
                pci_address: addresses.pci(),
                ..ClaimedDevice::default()
            };
            made_up.push(format!("{claim}/{request} {}", device.pci_address));
            requests.insert(request.clone(), device);
        }
    }
    (!made_up.is_empty()).then(|| {
        Note::differs(
            "claimed devices",
            format!(
                "devices of resource claims are made up (claimedDevices): {}; {WAY_OUT}",
                made_up.join(", ")
            ),
        )
    })
}

/// The networks of SR-IOV interfaces that have no address yet; those that Multus has attached, or all.
fn sriov_networks(vmi: &Vmi, only_attached: bool) -> impl Iterator<Item = &str> {
    let interfaces = vmi.spec.domain.devices.interfaces.iter();
    interfaces
        .filter(|interface| interface.sriov.is_some())
        .map(|interface| interface.name.as_str())
        .filter(move |name| {
            let mut statuses = vmi.status.interfaces.iter();
            !only_attached
                || statuses.any(|status| {
                    status.name == *name
                        && status
                            .info_source
                            .split(", ")
                            .any(|source| source == MULTUS_STATUS)
                })
        })
}

fn add_networks(
    vmi: &Vmi,
    only_attached: bool,
    facts: &mut HostFacts,
    addresses: &mut MadeUpAddresses,
) -> Option<Note> {
    let mut made_up = Vec::new();
    for network in sriov_networks(vmi, only_attached) {
        let info = facts.network_info.get_or_insert_with(NetworkInfo::default);
        if info.interfaces.iter().any(|known| known.network == network) {
            continue;
        }
        let address = addresses.pci();
        made_up.push(format!("{network} {address}"));
        info.interfaces.push(NetworkInterface {
            network: network.to_owned(),
            device_info: Some(DeviceInfo {
                pci: Some(PciDevice { address }),
            }),
        });
    }
    (!made_up.is_empty()).then(|| {
        Note::differs(
            "networks",
            format!(
                "addresses of SR-IOV interfaces are made up (networkInfo): {}; {WAY_OUT}",
                made_up.join(", ")
            ),
        )
    })
}

/// Gives a VMI with dedicated CPUs a NUMA node that has enough, unless the options have a topology.
fn complete_cpus(vmi: &Vmi, options: &mut Options, facts: &mut HostFacts) -> Option<Note> {
    let cpu = vmi.spec.domain.cpu.as_ref()?;
    let has_topology = options
        .topology
        .as_ref()
        .is_some_and(|topology| !topology.numa_cells.is_empty());
    if !cpu.dedicated_cpu_placement || has_topology {
        return None;
    }
    let counts = [cpu.sockets, cpu.cores, cpu.threads];
    let vcpus = counts
        .into_iter()
        .map(|count| u64::from(count.max(1)))
        .fold(1, u64::saturating_mul);
    let io_threads = vmi.spec.domain.io_threads.as_ref();
    let io_threads = io_threads.and_then(|threads| threads.supplemental_pool_thread_count);
    let needed = vcpus
        .saturating_add(u64::from(io_threads.unwrap_or(0)))
        .saturating_add(EMULATOR_CPUS)
        .min(MAX_CPUS);
    let mut next = 0;
    while (facts.cpuset.len() as u64) < needed {
        if !facts.cpuset.contains(&next) {
            facts.cpuset.push(next);
        }
        next += 1;
    }
    facts.cpuset.sort_unstable();
    options.topology = Some(Topology {
        numa_cells: vec![node(&facts.cpuset, cpu.threads.max(1))],
    });
    Some(Note::differs(
        "dedicated CPUs",
        format!(
            "the dedicated CPUs are those of a made-up NUMA node with the CPUs {} (cpuset); give others with --host, and the node's \
         topology with --options",
            ranges(&facts.cpuset)
        ),
    ))
}

/// A node whose cores have as many threads as the guest's.
fn node(cpuset: &[u32], threads_per_core: u32) -> Cell {
    let threads_per_core = usize::try_from(threads_per_core).unwrap_or(1).max(1);
    let cpus = cpuset.chunks(threads_per_core).flat_map(|core| {
        core.iter().map(|id| Cpu {
            id: *id,
            siblings: core.to_vec(),
        })
    });
    Cell {
        id: 0,
        memory: Some(MemoryAmount {
            amount: NODE_MEMORY_KIB,
            unit: "KiB".to_owned(),
        }),
        pages: vec![Pages {
            count: NODE_MEMORY_KIB / u64::from(PAGE_KIB),
            unit: "KiB".to_owned(),
            size: PAGE_KIB,
        }],
        distances: vec![Sibling { id: 0, value: 10 }],
        cpus: cpus.collect(),
    }
}

/// Such as `0-3,6`.
fn ranges(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*cpu) => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vmi(spec: &str) -> Vmi {
        let text = format!("metadata: {{name: vm, namespace: ns}}\nspec: {spec}\n");
        Vmi::from_yaml_or_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn each_device_gets_an_address_of_its_own_and_given_ones_stay() {
        let vmi = vmi(
            "{domain: {devices: {gpus: [{name: a, deviceName: nvidia.com/A}, {name: b, deviceName: nvidia.com/A}, \
             {name: v, deviceName: nvidia.com/V, virtualGPUOptions: {}}, {name: c, claimName: claim, requestName: r}], \
             hostDevices: [{name: d, deviceName: intel.com/d}, {name: u, deviceName: example.com/usb}]}}}",
        );
        let mut facts = HostFacts {
            device_plugins: BTreeMap::from([
                (
                    "PCI_RESOURCE_INTEL_COM_D".to_owned(),
                    "0000:01:00.0".to_owned(),
                ),
                ("USB_RESOURCE_EXAMPLE_COM_USB".to_owned(), "1:2".to_owned()),
            ]),
            ..HostFacts::default()
        };
        let notes = complete(&vmi, &mut Options::default(), &mut facts);
        let plugin = |name: &str| facts.device_plugins[name].as_str();
        assert_eq!(
            plugin("PCI_RESOURCE_NVIDIA_COM_A"),
            "0000:65:00.0,0000:65:01.0"
        );
        assert_eq!(plugin("PCI_RESOURCE_INTEL_COM_D"), "0000:01:00.0");
        assert_eq!(plugin("MDEV_PCI_RESOURCE_NVIDIA_COM_V").len(), 36);
        assert_eq!(facts.device_plugins.len(), 4);
        assert_eq!(
            facts.claimed_devices["claim"]["r"].pci_address,
            "0000:65:03.0"
        );
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].text.contains("devicePlugins") && notes[0].text.contains("--host"));
        assert_eq!(complete(&vmi, &mut Options::default(), &mut facts), []);
    }

    #[test]
    fn dedicated_cpus_get_a_node_that_is_large_enough() {
        let vmi = vmi(
            "{domain: {devices: {}, cpu: {sockets: 2, cores: 2, threads: 2, dedicatedCpuPlacement: true}}}",
        );
        let mut facts = HostFacts {
            cpuset: vec![1, 4],
            ..HostFacts::default()
        };
        let mut options = Options::default();
        let notes = complete(&vmi, &mut options, &mut facts);
        assert_eq!(facts.cpuset.len(), 10);
        assert!(facts.cpuset.contains(&1) && facts.cpuset.contains(&4));
        assert!(notes[0].text.contains("the CPUs 0-9 (cpuset)"), "{notes:?}");
        assert_eq!(
            options.topology.as_ref().unwrap().numa_cells[0].cpus.len(),
            10
        );
        assert_eq!(complete(&vmi, &mut options, &mut facts), []);
    }
}
