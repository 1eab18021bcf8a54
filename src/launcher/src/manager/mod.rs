//! The VM manager: the driver task runs commands, and the observer task watches the domain.
//!
//! ```text
//!   callers ─▶ handle ─▶ driver (admission decides) ─▶ ops ─▶ libvirt
//!                                                             │ events
//!   launcher ◀─ state ◀─ observer (snapshot) ◀────────────────┘
//!                            └─▶ notify ─▶ virt-handler
//! ```

mod alert_reporter;
mod applied_hooks;
mod command;
mod command_driver;
mod command_id;
mod command_queue;
mod command_refusal;
mod command_rules;
mod command_success;
mod detaching_devices;
mod device_change_error;
mod devices_refused_by_hooks;
mod disk_capacities;
mod driver_state;
mod error;
mod failed_attaches;
mod incoming_domain_editor;
mod incoming_migration_end;
mod incoming_migration_stage;
mod kubevirt_metadata;
mod last_notification;
mod manager_handle;
mod ops;
mod refused_hook_change;
mod resync_backoff;
mod spawn_vm_tasks;
mod start_notification;
mod sync_request;
mod vm_context;
mod vm_end_reason;
mod vm_identity;
mod vm_observer;
mod vm_state;

pub use command::Command;
pub use command_driver::CommandResult;
pub use command_refusal::CommandRefusal;
pub use command_success::CommandSuccess;
pub use device_change_error::DeviceChangeError;
pub use error::OpError;
pub use manager_handle::Manager;
pub use spawn_vm_tasks::{VmDependencies, VmHandles, event_handler};
pub use sync_request::SyncRequest;
pub use vm_context::VmContext;
pub use vm_identity::Identity;
pub use vm_state::{Phase, Role, VmState};
