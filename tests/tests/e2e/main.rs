//! End-to-end tests with real libvirt and QEMU. The tests act as virt-handler.
//!
//! The tests need root, because pods are namespaces; `make test` runs them as root. At most two pods run at once.
#![allow(clippy::unwrap_used)]

mod access_credentials;
mod backup;
mod config_disks;
mod corpus_definitions;
mod corpus_pci_addresses;
mod daemon_only_pod;
mod device_metadata;
mod devices_unknown_to_libvirt;
mod guest_agent;
mod guest_network;
mod guest_view_of_disks_and_cloud_init;
mod hook_attach_device;
mod hook_attach_interface;
mod hook_chain;
mod hook_collection_failures;
mod hook_policy_migration_abi;
mod hotplug_cpus_and_memory;
mod hotplug_during_daemon_restart;
mod hotplug_interfaces;
mod hotplug_volumes;
mod hung_processes;
mod image_volumes;
mod iommufd_from_device_plugin;
mod kubevirt_launcher_answers;
mod kubevirt_plugins;
mod memory_dump;
mod migration_decentralized;
mod migration_failures;
mod migration_libvirt_hook;
mod migration_source;
mod migration_target;
mod migration_to_other_volumes;
mod pci_addresses;
mod plain_libvirt_host;
mod pod_facts;
mod pre_migration_source_hook;
mod process_deaths;
mod process_tree;
mod pvc_expansion_and_block_tracking;
mod python_hook;
mod recorded_pci_addresses;
mod refused_vmis;
mod restart_after_kill;
mod second_launcher;
mod serve_process;
mod sigterm;
mod sigterm_during_start;
mod standalone_manifest;
mod standalone_vmi;
mod start_notifications;
mod uefi_and_tpm_state_directories;
mod unprivileged_pod;
mod virt_handler_restarts;
mod virt_probe_virt_freezer_and_hook_client;
mod virtlogd_deaths;
mod vm_lifecycle;
mod volume_hotplug_fixture;

/// The states without repetitions, since it is undefined how often libvirt repeats a state.
fn distinct(mut states: Vec<String>) -> Vec<String> {
    states.dedup();
    states
}
