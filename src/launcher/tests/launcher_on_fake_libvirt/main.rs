//! Tests of the whole launcher on a fake libvirt: the effects of commands, and the notifications that a recording
//! virt-handler receives.
#![allow(clippy::unwrap_used)]

mod access_credentials;
mod backup_refusals;
mod boot_hook_failures_and_events;
mod command_responses;
mod commands_before_arrival;
mod commands_during_migration;
mod commands_while_launcher_exits;
mod daemon_and_qemu_failures;
mod dirty_rate;
mod disk_expansion;
mod domain_deletion;
mod finalize_migration_link_refresh;
mod freeze_and_unfreeze;
mod guest_agent_of_paused_guest;
mod guest_agent_polling;
mod guest_exec;
mod hostile_command_clients;
mod hotplug_cpus;
mod hotplug_disks_detach_and_refusals;
mod hotplug_memory;
mod hotplug_sriov_host_devices;
mod http2_authority_header;
mod invalid_command_requests;
mod launch_security;
mod launcher_ends;
mod launcher_version;
mod lifecycle_commands;
mod memory_dump;
mod migration_cancellation;
mod migration_failures_and_guest_location;
mod migration_source;
mod migration_target_arrival;
mod migration_target_preparation;
mod migration_timeouts_and_downtime;
mod pause_on_arrival;
mod qemu_shutdown_after_migration;
mod refused_migrations;
mod safety_thaw;
mod screenshot;
mod shutdown_hooks;
mod support;
mod vm_starts;
mod vm_stats;
