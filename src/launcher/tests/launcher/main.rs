//! The launcher put together from its parts, over a libvirt in memory and a real virt-handler's
//! socket: what commands do, and which notifications are sent in which order.
#![allow(clippy::unwrap_used)]

mod access_credentials;
mod backup_refusals;
mod boot_hooks;
mod command_client;
mod command_service;
mod commands_during_migration;
mod daemon_losses;
mod dirty_rate;
mod disk_expansion;
mod finalized_migrations;
mod freeze;
mod guest_agent_polling;
mod guest_exec;
mod hotplug_devices_cpus_memory;
mod hotplug_host_devices;
mod invalid_authority;
mod launch_security;
mod lifecycle_commands;
mod memory_dump;
mod migrating_launcher;
mod migration_aborts;
mod migration_guest_location;
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
