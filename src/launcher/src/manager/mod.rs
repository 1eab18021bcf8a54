//! The VM manager: the driver task runs commands, and the observer task watches the domain.
//!
//! ```text
//!   callers ─▶ handle ─▶ driver (admission decides) ─▶ ops ─▶ libvirt
//!                                                             │ events
//!   launcher ◀─ state ◀─ observer (snapshot) ◀────────────────┘
//!                            └─▶ notify ─▶ virt-handler
//! ```

mod alert_reporter;
mod command;
mod command_driver;
mod command_driver_state;
mod command_error;
mod command_id;
mod command_queue;
mod command_refusal;
mod command_rules;
mod command_success;
mod detaching_devices;
mod device_change_error;
mod devices_refused_by_hooks;
mod disk_capacities;
mod failed_device_attaches;
mod guest_panics;
mod hook_applied_event_messages;
mod hook_change_refused_by_libvirt;
mod incoming_migration_end_task;
mod incoming_migration_stage;
mod incoming_migration_xml_editor;
mod kubevirt_metadata;
mod last_notification;
mod manager_handle;
mod ops;
mod out_of_memory_kills;
mod reported_conditions;
mod start_notification_acceptance;
mod sync_request;
mod vm_context;
mod vm_dependencies_and_tasks;
mod vm_end_reason;
mod vm_identity;
mod vm_observer;
mod vm_phase_and_migration_role;

pub use command::Command;
pub use command_driver::CommandResult;
pub use command_error::CommandError;
pub use command_refusal::CommandRefusal;
pub use command_success::CommandSuccess;
pub use device_change_error::DeviceChangeError;
pub use manager_handle::Manager;
pub use sync_request::SyncRequest;
pub use vm_context::VmContext;
pub use vm_dependencies_and_tasks::{VmDependencies, VmHandles, event_handler};
pub use vm_identity::Identity;
pub use vm_phase_and_migration_role::{Phase, Role, VmState};
