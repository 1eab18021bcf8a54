//! virt-launcher: runs one VirtualMachineInstance as a libvirt domain, serves virt-handler's commands about it, and
//! notifies virt-handler of its state. [`process_lifecycle`] composes the modules.

mod agent;
mod atomic_file;
mod blocking;
mod boot;
mod cgroup_cpuset;
mod command_server;
mod config;
mod hook_failure_events;
pub mod hooks_trait;
mod init_dirs;
mod instance_lock;
mod jobs;
mod kill_by_command_line;
mod libvirt_client;
mod libvirt_daemons;
mod libvirt_migration_hook;
mod lifetime;
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
mod stats;
mod sysfs_numa;
mod tasks;
mod termination_signals;
mod timestamp;
mod unix_listener;
mod vm_events;

pub use agent::PollIntervals;
pub use blocking::MAX_THREADS as MAX_BLOCKING_THREADS;
pub use boot::boot_resources::BootResources;
pub use config::{Config, ConfigError};
pub use instance_lock::{DIRECTORIES_IN_USE, InstanceLockError};
pub use migration_error_log::MigrationErrorLog;
pub use paths::Paths;
pub use termination_signals::EarlySignals;
