//! The launcher put together from its parts, over a libvirt in memory and a real virt-handler's
//! socket: what commands do, and which notifications are sent in which order.
#![allow(clippy::unwrap_used)]

mod backup_refusals;
mod boot_hooks;
mod command_client;
mod command_service;
mod credentials;
mod daemon_losses;
mod disk_expansion;
mod fake_libvirt_rig;
mod freeze;
mod guest_agent;
mod guest_exec;
mod hotplug;
mod invalid_authority;
mod lifecycle_commands;
mod memory_dump;
mod migration_aborts;
mod migration_guest_location;
mod migration_refusals;
mod migration_requests;
mod migration_source;
mod migration_target;
mod recording_virt_handler;
mod screenshot_stats_and_sev;
mod scripted_agent;
mod scripted_hooks;
mod sriov_interfaces;
mod starts;
