//! Every domain has free PCIe root ports for hotplug: the ports of libvirt's own XML are counted.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use anyhow::{Result, ensure};
use domain::convert::convert;
use domain::domain_spec_to_xml::render;
use domain::hotplug_ports::DefinitionPlan;
use domain_xml::{Document, Element};
use kubevirt_api::vmi::Vmi;
use serde_json::{Value, json};

use super::corpus_definitions::corpus_directory;
use super::corpus_pci_addresses::{Hook, with_hook_changes, without_hook};
use super::kubevirts_domain_definitions::hotplug_ports;
use super::libvirt_daemon_only_pod::DaemonOnlyPod;
use super::pci_addresses_equal_to_kubevirts::{
    addresses, define_like_kubevirt, define_like_this_launcher, differences_of_devices,
};

/// The VMI of a corpus case with this number of interfaces and this guest memory.
fn vmi_with(interfaces: usize, memory: &str) -> Result<Vmi> {
    let file = corpus_directory().join("typical-fedora.vmi.json");
    let mut vmi: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let names = || (0..interfaces).map(|number| format!("net{number}"));
    let network = |name: String| match name.as_str() {
        "net0" => json!({"name": name, "pod": {}}),
        _ => json!({"name": name, "multus": {"networkName": name}}),
    };
    let interface = |name: String| match name.as_str() {
        "net0" => json!({"name": name, "masquerade": {}}),
        _ => json!({"name": name, "bridge": {}}),
    };
    let domain = &mut vmi["spec"]["domain"];
    domain["memory"] = json!({ "guest": memory });
    domain["devices"]["interfaces"] = names().map(interface).collect();
    domain["devices"]["autoattachPodInterface"] = json!(interfaces > 0);
    vmi["spec"]["networks"] = names().map(network).collect();
    Ok(Vmi::from_json(vmi.to_string().as_bytes())?)
}

/// The root ports of a domain to which no device is connected.
fn free_ports(xml: &str) -> Result<usize> {
    let domain = Document::parse(xml)?;
    let devices = domain.find("devices")?.into_iter();
    let devices: Vec<&Element> = devices.flat_map(Element::children).collect();
    let bus_of = |device: &&Element| {
        let address = device.child("address")?;
        let bus = address.attr("bus").filter(|_| {
            address
                .attr("type")
                .is_some_and(|address_type| address_type == "pci")
        })?;
        u32::from_str_radix(bus.trim_start_matches("0x"), 16).ok()
    };
    let used: HashSet<u32> = devices.iter().filter_map(bus_of).collect();
    let ports = devices.iter().filter(|device| {
        device
            .attr("model")
            .is_some_and(|model| model == "pcie-root-port")
    });
    let indices = ports.filter_map(|port| port.attr("index")?.parse::<u32>().ok());
    Ok(indices.filter(|index| !used.contains(index)).count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libvirts_domain_has_the_free_ports_that_were_asked_for() -> Result<()> {
    let daemon = DaemonOnlyPod::start().await?;
    let directory = tempfile::tempdir()?;
    let read = |file: &str| fs::read_to_string(corpus_directory().join(file));
    let options = serde_json::from_str(&read("typical-fedora.options.json")?)?;
    let host = serde_json::from_str(&read("host.json")?)?;
    let mut missing = Vec::new();
    for (memory, min_free) in [("1Gi", 3), ("4Gi", 6)] {
        for interfaces in 0..=6 {
            let case = format!("{interfaces} interfaces, {memory}");
            let vmi = vmi_with(interfaces, memory)?;
            let spec = convert(&vmi, &options, &host)?;
            let kubevirts_ports = hotplug_ports(&vmi, &spec)?;
            let mut ours = BTreeMap::new();
            let hooks: [Hook; 2] = [with_hook_changes, without_hook];
            for hook in hooks {
                let definition = DefinitionPlan::plan(&vmi, hook(render(&spec)))?;
                let reserved = definition.ports();
                let xml =
                    define_like_this_launcher(&daemon, directory.path(), &spec.name, &definition)?;
                let free = free_ports(&xml)?;
                let asked = reserved.placeholders + reserved.spare_ports;
                // libvirt adds a port of its own if the domain has none yet.
                if !(asked..=asked + 1).contains(&free) || free < min_free {
                    missing.push(format!("{case}: asked for {asked} ports, {free} are free"));
                }
                ours = addresses(&daemon, &spec.name, &xml)?;
            }
            let theirs =
                define_like_kubevirt(&daemon, directory.path(), (vmi, spec), kubevirts_ports)?;
            let (placeholders, _) = kubevirts_ports;
            missing.extend(differences_of_devices(&case, &ours, &theirs, placeholders));
        }
    }
    ensure!(missing.is_empty(), "{}", missing.join("\n"));
    Ok(())
}
