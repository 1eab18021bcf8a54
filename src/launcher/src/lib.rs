//! virt-launcher: turns one VirtualMachineInstance into a running libvirt domain, serves commands
//! about it, and reports what happens to it. [`launcher`] composes the modules.

mod agent;
mod atomic_file;
mod blocking;
mod boot;
mod command;
mod config;
mod daemons;
mod events;
mod init_dirs;
mod instance_lock;
mod jobs;
pub mod launcher;
mod libvirt_client;
mod lifetime;
pub mod logging;
pub mod manager;
mod migration_hook;
mod mounted_secrets;
mod nbd;
mod notify;
mod paths;
mod process_search;
mod qemu_process;
mod qemu_watch;
mod qmp;
mod signals;
mod stats;
mod tasks;
mod timers;
mod timestamp;
mod unix_listener;

pub use agent::PollIntervals;
pub use boot::preparation::BootResources;
pub use config::{Config, ConfigError};
pub use instance_lock::{DIRECTORIES_IN_USE, InstanceLockError};
pub use paths::Paths;
pub use signals::EarlySignals;
