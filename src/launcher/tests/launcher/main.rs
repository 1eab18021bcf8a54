//! The launcher put together from its parts, over a libvirt in memory and a real virt-handler's
//! socket: what commands do, and which notifications are sent in which order.
#![allow(clippy::unwrap_used)]

mod backup_refusals;
mod command_service;
mod credentials;
mod fake_libvirt_rig;
mod freeze;
mod guest_agent;
mod hotplug;
mod invalid_authority;
mod memory_dump;
mod migration_source;
mod migration_target;
mod operations;
mod screenshot_stats_and_sev;
mod sriov_interfaces;
