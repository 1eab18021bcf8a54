//! The source of a live migration: the rules, which are pure, and [`run`], which carries a migration out.
//!
//! ```text
//!   record begun ─▶ [prepare: host devices, XML] ─▶ [libvirt's call] ─▶ record ended
//!                            │                          │  ▲ samples, actions
//!                            └──── cancel ──▶ aborted   └──┴─ monitor
//! ```
//! When the call breaks off because libvirt's daemon died, [`guest_location`] has the rules, and [`guest_location_inquiry`] asks both
//! daemons.
//!
//! The answer to virt-handler says only that the migration begins; everything else is in the record, which is part of
//! each notification. A record is ended once, whatever happens, and a migration's UID is executed once.

mod guest_location;
mod guest_location_inquiry;
mod iterations;
mod libvirt_call;
mod local_disk_size;
mod migration_metadata;
mod monitor;
mod parameters;
mod request;
mod run;
mod sriov_interfaces;

pub(super) use migration_metadata::MigrationRecord;
pub(crate) use request::{MigrationJob, MigrationRefusal};
pub(super) use run::{MigrationControl, run};
