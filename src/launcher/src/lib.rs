//! virt-launcher: runs one VirtualMachineInstance as a libvirt domain, serves virt-handler's commands about it, and
//! notifies virt-handler of its state. [`process_lifecycle`] composes the modules.

mod atomic_file;
mod blocking;
mod command_server;
mod config;
mod domain_stats_json;
mod guest_agent;
mod hook_failure_events;
pub mod hooks_trait;
mod init_dirs;
mod instance_lock;
mod jobs;
mod kill_by_command_line;
mod launcher_lifetime;
mod libvirt_client;
mod libvirt_daemons;
mod libvirt_migration_hook_server;
pub mod logging;
pub mod manager;
mod migration_error_log;
mod mounted_secrets;
mod named_timers;
mod nbd;
mod notify;
mod paths;
pub mod process_lifecycle;
mod qemu_process;
mod qemu_watch;
mod qmp_answer;
mod supervised_tasks;
mod sysfs_numa;
pub mod termination_message;
mod termination_signals;
mod timestamp;
mod unix_listener;
mod untrusted_file;
mod vm_boot;
mod vm_events;

pub use blocking::MAX_THREADS as MAX_BLOCKING_THREADS;
pub use config::{Config, ConfigError, KubeVirtRelease, NamedVm, VERSION};
pub use guest_agent::PollIntervals;
pub use instance_lock::{DIRECTORIES_IN_USE, InstanceLockError};
pub use migration_error_log::MigrationErrorLog;
pub use paths::Paths;
pub use termination_signals::EarlySignals;
pub use vm_boot::boot_resources::BootResources;
