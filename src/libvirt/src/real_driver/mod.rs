//! The real driver: calls to libvirt's C library, and all code that handles its pointers.

mod backups_and_checkpoints;
mod c_strings_and_errors;
mod callback_registry;
mod connection_handle;
mod devices;
mod dirty_rate;
mod disk_sizes_and_errors;
mod domain;
mod domain_definition;
mod domain_handle;
mod domain_jobs;
mod domain_stats;
mod event_callbacks;
mod event_loop;
mod event_registration;
mod guest_agent;
mod hypervisor_connection;
mod io_threads;
mod launch_security;
mod malloc_arenas;
mod migration;
mod qemu_monitor;
mod read_stream;
mod screenshot;
mod start_pause_stop;
mod typed_param_conversion;
mod typed_param_list;
mod vcpus_and_cpu_pinning;

pub use hypervisor_connection::{connect, library_version};
pub use malloc_arenas::limit_malloc_arenas;
