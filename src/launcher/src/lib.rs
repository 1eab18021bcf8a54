//! virt-launcher: turns one VirtualMachineInstance into a running libvirt domain, serves commands
//! about it, and reports what happens to it. `launcher` composes the rest.

mod access_credentials;
pub mod blocking;
pub mod cloud_init;
pub mod command;
pub mod config;
pub mod config_isos;
pub mod daemons;
pub mod directories;
pub mod disks;
pub mod guest_agent;
pub mod host;
pub mod image_volumes;
mod iso9660;
pub mod launcher;
pub mod lifetime;
pub mod logging;
pub mod manager;
pub mod network;
pub mod notify;
pub mod places;
mod placing;
pub mod qemu_watch;
pub mod signals;
pub mod stats;

pub use config::Config;
pub use places::Places;
