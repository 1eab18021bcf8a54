//! The operations, one file per command. Each is a function of the VM; the driver decides when it runs.

mod cpus;
mod delete;
mod finalize_migration;
mod freeze;
mod hook_events;
mod host_devices;
mod job_start;
mod kill;
mod memory;
mod memory_dump;
mod migrate;
mod migration_target;
mod pause;
mod prepare;
mod reset;
mod shutdown;
mod soft_reboot;
mod sync;
mod unpause;

pub(super) use cpus::set_cpus;
pub(super) use delete::delete;
pub(super) use finalize_migration::finalize_migration;
pub(super) use freeze::{freeze, unfreeze};
pub(super) use host_devices::attach_host_devices;
pub(super) use kill::kill;
pub(super) use memory::set_memory;
pub(super) use memory_dump::memory_dump;
pub(super) use migrate::{cancel_migration, migrate};
pub(super) use migration_target::sync_migration_target;
pub(super) use pause::pause;
pub(super) use reset::reset;
pub(super) use shutdown::shutdown;
pub(super) use soft_reboot::soft_reboot;
pub(super) use sync::sync;
pub(super) use unpause::unpause;
