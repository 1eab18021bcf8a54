//! A VM's life on real libvirt and QEMU, seen from virt-handler's side, and what happens when something goes wrong.
//!
//! Needs root (pods are namespaces); `make test` sees to it. At most two pods run at once.
#![allow(clippy::unwrap_used)]

mod access_credentials;
mod addresses;
mod claims;
mod commands;
mod configuration;
mod corpus_addresses;
mod daemon;
mod define;
mod device_metadata;
mod disks;
mod faults;
mod firmware;
mod hooks;
mod iommufd;
mod life;
mod network;
mod plugins;
mod processes;
mod python;
mod resumption;
mod served;
mod standalone;

/// `TYPE Status/Reason`, repetitions left out: how often a state is repeated is libvirt's affair.
fn distinct(mut states: Vec<String>) -> Vec<String> {
    states.dedup();
    states
}
