//! Devices have the same PCI addresses as with KubeVirt's launcher.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Result;
use domain::domain_spec_from_xml::parse;
use domain::domain_spec_to_xml::render;
use domain::hotplug_ports::DefinitionPlan;
use domain::libvirt_spec::DomainSpec;
use kubevirt_api::vmi::Vmi;
use serde_json::Value;

use super::corpus_definitions::convert_case;
use super::kubevirts_domain_definitions::{add_spare_ports, kubevirts_first_definition};
use super::libvirt_daemon_only_pod::DaemonOnlyPod;

/// Cases of the corpus whose devices libvirt places by different rules, with the numbers of placeholder interfaces and
/// of spare ports that KubeVirt's launcher gives them.
const CASES: [(&str, usize, usize); 9] = [
    ("typical-fedora", 3, 4),
    ("typical-windows", 3, 8),
    ("vsock", 3, 0),
    ("sound-ac97", 3, 0),
    ("virtiofs-pvc", 3, 0),
    ("net-model-rtl8139", 3, 0),
    ("net-none", 0, 4),
    ("net-multus", 1, 2),
    ("place-pci-on-root", 0, 0),
];

/// Defines a domain, and returns libvirt's XML of the domain.
fn define(daemon: &DaemonOnlyPod, directory: &Path, name: &str, xml: &str) -> Result<String> {
    let file = directory.join("domain.xml");
    fs::write(&file, xml)?;
    daemon.virsh_output(&["define", &file.to_string_lossy()])?;
    daemon.virsh_output(&["dumpxml", "--inactive", name])
}

/// Undefines the domain, and returns the PCI addresses of its devices in KubeVirt's JSON.
pub(crate) fn addresses(
    daemon: &DaemonOnlyPod,
    name: &str,
    xml: &str,
) -> Result<BTreeMap<String, String>> {
    daemon.virsh_output(&["undefine", name, "--keep-nvram", "--keep-tpm"])?;
    Ok(addresses_of_devices(&serde_json::to_value(
        parse(xml)?.devices,
    )?))
}

/// The PCI address of each device. The key of a controller has its type and index, other keys have the index in the
/// list of their kind.
pub(crate) fn addresses_of_devices(devices: &Value) -> BTreeMap<String, String> {
    let mut addresses = BTreeMap::new();
    for (kind, devices) in devices.as_object().into_iter().flatten() {
        let list = match devices {
            Value::Array(list) => list.as_slice(),
            device => std::slice::from_ref(device),
        };
        for (index, device) in list.iter().enumerate() {
            let address = &device["Address"];
            if address["Type"] == "pci" {
                let part = |name: &str| address[name].as_str().unwrap_or_default();
                let address = format!("{} {} {}", part("Bus"), part("Slot"), part("Function"));
                let device_name = match kind.as_str() {
                    "Controllers" => format!("{} {}", device["Type"], device["Index"]),
                    _ => index.to_string(),
                };
                addresses.insert(format!("{kind}/{device_name}"), address);
            }
        }
    }
    addresses
}

pub(crate) fn is_root_port(device: &str) -> bool {
    device.starts_with("Controllers/\"pci\"")
}

/// The devices that are not at the address that KubeVirt's launcher gives them (`theirs`). Without placeholders its
/// domains have no free ports, so that this launcher's have more root ports.
pub(crate) fn differences_of_devices(
    case: &str,
    ours: &BTreeMap<String, String>,
    theirs: &BTreeMap<String, String>,
    placeholders: usize,
) -> Vec<String> {
    let devices: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let differences = devices.into_iter().filter_map(|device| {
        let (ours, theirs) = (ours.get(device), theirs.get(device));
        let is_additional_port = theirs.is_none() && placeholders == 0 && is_root_port(device);
        (ours != theirs && !is_additional_port)
            .then(|| format!("{case}: {device} is at {ours:?}, KubeVirt's at {theirs:?}"))
    });
    differences.collect()
}

/// Defines the domain three times as KubeVirt's launcher does: with placeholders, with the assigned addresses, with
/// spare ports.
pub(crate) fn define_like_kubevirt(
    daemon: &DaemonOnlyPod,
    directory: &Path,
    (vmi, mut spec): (Vmi, DomainSpec),
    (placeholders, ports): (usize, usize),
) -> Result<BTreeMap<String, String>> {
    let name = spec.name.clone();
    if let Some(first) = kubevirts_first_definition(&vmi, &spec, placeholders) {
        let mut devices = parse(&define(daemon, directory, &name, &render(&first))?)?.devices;
        devices.interfaces = spec.devices.interfaces;
        spec.devices = devices;
        define(daemon, directory, &name, &render(&spec))?;
    }
    add_spare_ports(&mut spec, ports);
    let xml = define(daemon, directory, &name, &render(&spec))?;
    addresses(daemon, &name, &xml)
}

/// Defines the domain as this launcher does, and returns libvirt's XML of it.
pub(crate) fn define_like_this_launcher(
    daemon: &DaemonOnlyPod,
    directory: &Path,
    name: &str,
    definition: &DefinitionPlan,
) -> Result<String> {
    let xml = define(daemon, directory, name, definition.first())?;
    match definition.second(&xml)? {
        Some(second) => define(daemon, directory, name, &second),
        None => Ok(xml),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_definitions_give_the_addresses_of_kubevirts_three() -> Result<()> {
    let daemon = DaemonOnlyPod::start().await?;
    let directory = tempfile::tempdir()?;
    for (case, placeholders, ports) in CASES {
        let hotplug_ports = (placeholders, ports);
        let theirs = define_like_kubevirt(
            &daemon,
            directory.path(),
            convert_case(case)?,
            hotplug_ports,
        )?;
        let (vmi, spec) = convert_case(case)?;
        let definition = DefinitionPlan::plan(&vmi, render(&spec))?;
        let xml = define_like_this_launcher(&daemon, directory.path(), &spec.name, &definition)?;
        let ours = addresses(&daemon, &spec.name, &xml)?;
        assert_eq!(
            differences_of_devices(case, &ours, &theirs, placeholders),
            [""; 0]
        );
        assert!(ours.len() > 3, "{case}: {ours:?}");
    }
    Ok(())
}
