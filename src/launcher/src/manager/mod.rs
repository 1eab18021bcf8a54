//! The virtual machine: the driver task decides which commands run, the observer task watches the domain.
//!
//! ```text
//!   callers ─▶ handle ─▶ driver (admission decides) ─▶ ops ─▶ libvirt
//!                                                             │ events
//!   launcher ◀─ state ◀─ observer (snapshot) ◀────────────────┘
//!                            └─▶ notify ─▶ virt-handler
//! ```

mod applied_hooks;
mod command_admission;
mod command_driver;
mod command_effect;
mod command_id;
mod command_refusal;
mod command_rules;
mod detaching_devices;
mod device_change_error;
mod disk_capacities;
mod error;
mod failed_attaches;
mod incoming_domain;
mod incoming_migration;
mod incoming_stage;
mod kubevirt_metadata;
mod last_notification;
mod manager_handle;
mod ops;
mod refused_devices;
mod report_panics_and_disk_errors;
mod resync_retry;
mod spawn_vm_tasks;
mod start_acceptance;
mod sync_request;
mod vm_context;
mod vm_end_reason;
mod vm_observer;
mod vm_state;

pub use command_driver::Outcome;
pub use command_effect::CommandEffect;
pub use command_refusal::Refusal;
pub use command_rules::Command;
pub use device_change_error::DeviceChangeError;
pub use error::OpError;
pub use manager_handle::Manager;
pub use spawn_vm_tasks::{VmDependencies, VmHandles, event_handler};
pub use sync_request::SyncRequest;
pub use vm_context::{Identity, VmContext};
pub use vm_state::{Phase, Role, VmState};
