//! The source of a live migration: the rules, which are pure, and [`migration_task`], which carries a migration out.
//!
//! ```text
//!   record begun ─▶ [prepare: host devices, XML] ─▶ [libvirt's call] ─▶ record ended
//!                            │                          │  ▲ samples, actions
//!                            └──── cancel ──▶ aborted   └──┴─ monitor
//! ```
//! When the call breaks off because libvirt's daemon died, [`decide_guest_location`] has the rules, and [`guest_location_query`] asks both
//! daemons.
//!
//! The answer to virt-handler says only that the migration begins; everything else is in the record, which is part of
//! each notification. A record is ended once, whatever happens, and a migration's UID is executed once.

mod blocking_query;
mod decide_guest_location;
mod guest_location_query;
mod hung_abort;
mod iteration_events;
mod libvirt_parameters;
mod local_disk_size;
mod migrate_call;
mod migration_record;
mod migration_request;
mod migration_task;
mod monitor;
mod monitor_actions;
mod sriov_interfaces;

pub(super) use migration_record::MigrationRecord;
pub(crate) use migration_request::{MigrationJob, MigrationRefusal};
pub(super) use migration_task::{MigrationControl, run};
