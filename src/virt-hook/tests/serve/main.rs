//! `virt-hook serve` as a launcher uses it, with real modules, gRPC and sockets.
#![allow(clippy::unwrap_used)]

mod call_errors_and_lost_elements;
#[path = "../support/example_modules.rs"]
mod example_modules;
#[path = "../support/handwritten_module.rs"]
mod handwritten_module;
mod hostile_clients;
mod metrics;
mod plugin_calls;
mod policy_and_hook_yaml;
mod prometheus_parser;
#[path = "../support/served_sidecar/mod.rs"]
mod served_sidecar;
mod sidecar_calls;
mod socket_lifecycle;
mod unusual_requests;

use domain_xml::Document;

/// The manufacturer that the smbios example has set in a domain.
fn manufacturer(xml: &[u8]) -> Option<String> {
    let document = Document::parse(std::str::from_utf8(xml).unwrap()).unwrap();
    let path = "sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']";
    let entry = document.root().find(path).unwrap();
    entry.map(domain_xml::Element::text)
}
