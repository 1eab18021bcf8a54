//! virt-launcher: turns one VirtualMachineInstance into a running libvirt domain, serves commands
//! about it, and reports what happens to it. `launcher` composes the rest.

pub mod blocking;
pub mod cloud_init;
pub mod config;
pub mod directories;
pub mod disks;
pub mod lifetime;
pub mod logging;
pub mod manager;
pub mod notify;
pub mod places;

pub use config::Config;
pub use places::Places;
