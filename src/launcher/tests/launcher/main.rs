//! The launcher put together from its parts, over a libvirt in memory and a real virt-handler's
//! socket: what commands do, and which notifications are sent in which order.
#![allow(clippy::unwrap_used)]

mod access_credentials;
mod backup_refusals;
mod boot_hook_failures_and_events;
mod command_client;
mod command_responses;
mod commands_during_migration;
mod daemon_and_qemu_failures;
mod dirty_rate;
mod disk_expansion;
mod finalized_migrations;
mod freeze;
mod guest_agent_polling;
mod guest_exec;
mod hotplug_devices_cpus_memory;
mod hotplug_host_devices;
mod http2_authority_header;
mod launch_security;
mod lifecycle_commands;
mod memory_dump;
mod migration_aborts;
mod migration_guest_location;
mod migration_requests;
mod migration_source;
mod migration_target;
mod recording_virt_handler;
mod refused_migrations;
mod screenshot;
mod scripted_agent;
mod scripted_hooks;
mod test_launcher;
mod vm_starts;
mod vm_stats;
