//! Adds spare PCIe root ports to a domain.

use domain_xml::{Document, Element};

/// The highest index of a root port that KubeVirt creates. Root ports are functions of slots on the first bus.
const MAX_PORT_INDEX: usize = 31;

/// Adds empty root ports with indices above the existing PCI controllers.
pub(crate) fn add(domain: &mut Document, count: usize) {
    let devices = domain.root_mut().ensure_child("devices");
    let indices = devices
        .children_named("controller")
        .filter(|controller| controller.attr("type").as_deref() == Some("pci"))
        .filter_map(|controller| controller.attr("index")?.parse::<usize>().ok());
    let first = indices.max().unwrap_or_default().saturating_add(1);
    for index in (first..=MAX_PORT_INDEX).take(count) {
        let port = Element::new("controller")
            .with_attr("type", "pci")
            .with_attr("index", index.to_string())
            .with_attr("model", "pcie-root-port");
        devices.insert_after("controller", port);
    }
}
