//! The source of a live migration. [`migration_task`] carries a migration out; the rules ([`monitor`],
//! [`guest_location_decision`]) are pure.
//!
//! ```text
//!   record begun ─▶ [prepare: host devices, XML] ─▶ [libvirt's call] ─▶ record ended
//!                            │                          │  ▲ samples, actions
//!                            └──── cancel ──▶ aborted   └──┴─ monitor
//! ```
//! If the call breaks off because libvirt's daemon died, [`guest_location_query`] asks both daemons where the guest is,
//! by the rules of [`guest_location_decision`].
//!
//! The response to virt-handler says only that the migration begins. Everything else is in the record, which is part of
//! each notification. Every record is completed exactly once, and a migration's UID is executed only once.

mod blocking_query;
mod guest_location_decision;
mod guest_location_query;
mod hung_abort;
mod iteration_events;
mod local_disk_size;
mod migrate_call;
mod migrate_call_parameters;
mod migration_metadata;
mod migration_request;
mod migration_task;
mod monitor;
mod monitor_calls;
mod sriov_detach_and_reattach;
mod start_and_cancel;

pub(crate) use migration_request::{MigrationJob, MigrationRefusal};
pub(super) use start_and_cancel::RunningMigration;
