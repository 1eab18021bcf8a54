//! Calls to libvirt's C library: everything that touches a pointer of it.

mod agent;
mod blocks;
mod call;
mod callback_registry;
mod callbacks;
mod checkpoints;
mod connection;
mod definition;
mod devices;
mod domain;
mod domain_handle;
mod domain_stats;
mod event_loop;
mod hypervisor;
mod jobs;
mod launch_security;
mod malloc_arenas;
mod migration;
mod monitoring;
mod power;
mod qemu_monitor;
mod stream;
mod typed_param_list;
mod typed_params;

pub use hypervisor::{connect, library_version};
pub use malloc_arenas::limit_malloc_arenas;
