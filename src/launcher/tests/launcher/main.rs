//! The launcher put together from its parts, over a libvirt in memory and a real virt-handler's
//! socket: what commands do, what is told, in which order.
#![allow(clippy::unwrap_used)]

mod authority;
mod backup;
mod command;
mod credentials;
mod freeze;
mod guest_agent;
mod host_devices;
mod hotplug;
mod manager;
mod memory_dump;
mod migration_source;
mod migration_target;
mod monitoring;
mod rig;
