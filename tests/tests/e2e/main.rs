//! End-to-end tests with real libvirt and QEMU. The tests act as virt-handler.
//!
//! The tests need root, because pods are namespaces; `make test` runs them as root. At most two pods run at once.
#![allow(clippy::unwrap_used)]

mod access_credentials;
mod backup;
mod config_disks;
mod config_drive_device_metadata;
mod corpus_definitions;
mod corpus_pci_addresses;
mod devices_unknown_to_libvirt;
mod free_root_ports;
mod guest_agent;
mod guest_network;
mod guest_panic_flood;
mod guest_view_of_disks_and_cloud_init;
mod hook_attach_disk;
mod hook_attach_interface;
mod hook_chain_veto_and_cancel;
mod hook_policy_migration_abi;
mod hooks_on_migration_target;
mod hooks_on_plain_libvirt_host;
mod hotplug_cpus_and_memory;
mod hotplug_during_daemon_restart;
mod hotplug_interfaces;
mod hotplug_volumes;
mod hung_processes;
mod image_volumes;
mod iommufd_from_device_plugin;
mod killed_processes;
mod kubevirt_launcher_answers;
mod kubevirt_plugins;
mod kubevirts_domain_definitions;
mod launcher_restart_after_kill;
mod libvirt_daemon_only_pod;
mod memory_dump;
mod migration_compression_and_larger_volume;
mod migration_decentralized;
mod migration_failures;
mod migration_from_another_launcher;
mod migration_libvirt_hook;
mod migration_successes;
mod migration_target;
mod pci_addresses_equal_to_kubevirts;
mod pci_addresses_of_booted_vm_with_hook;
mod pod_facts_in_hook;
mod pre_migration_source_hook;
mod process_tree_and_paths;
mod pvc_expansion_and_block_tracking;
mod python_hook;
mod qemu_in_cgroup;
mod refused_starts;
mod refused_vmis;
mod second_launcher;
mod sigterm;
mod sigterm_during_start;
mod standalone_manifest;
mod standalone_vmi;
mod start_notifications;
mod start_strategy_paused;
mod uefi_and_tpm_state_directories;
mod unprivileged_pod;
mod unread_log;
mod virt_handler_restarts_and_delays;
mod virt_hook_serve_process;
mod virt_probe_virt_freezer_and_hook_client;
mod virtlogd_deaths;
mod vm_lifecycle;
mod volume_hotplug_fixture;

/// The states without repetitions, since it is undefined how often libvirt repeats a state.
fn distinct(mut states: Vec<String>) -> Vec<String> {
    states.dedup();
    states
}
