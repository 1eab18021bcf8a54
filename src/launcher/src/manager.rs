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
mod command_error;
mod command_id;
mod command_queue;
mod command_success;
mod device_change_error;
mod guest_panics;
mod hook_applied_event_messages;
mod incoming_migration;
mod incoming_migration_end_task;
mod kubevirt_metadata;
mod ops;
mod start_notification_acceptance;
mod sync_request;
mod tracked_devices;
mod vm_context;
mod vm_end_reason;
mod vm_observer;
mod vm_phase;
mod vm_tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hook_host::{Invocation, Reason};
use kubevirt_api::vmi::Vmi;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tracing::Instrument;

use crate::logging::RepeatedFailures;
use crate::supervised_tasks::Supervisor;
pub use command::Command;
use command::Repeat;
pub use command_driver::CommandResult;
use command_driver::{Driver, Message, request_span};
pub use command_error::{CommandError, CommandRefusal};
use command_id::CommandId;
pub use command_success::CommandSuccess;
pub use device_change_error::DeviceChangeError;
pub use sync_request::SyncRequest;
pub use vm_context::VmContext;
pub use vm_phase::{Phase, Role, VmState};
pub use vm_tasks::{VmDependencies, VmHandles, event_handler};

/// Capacity of the driver's inbox. It can be small, since the driver takes out messages at once.
const INBOX_CAPACITY: usize = 64;

/// Sends commands to the driver. Dropping the future of a call drops only the answer: the command continues.
#[derive(Clone)]
pub struct Manager {
    vm: Arc<VmContext>,
    inbox: mpsc::Sender<Message>,
    last_id: Arc<AtomicU64>,
    /// Limits the background attach of host devices to one at a time.
    host_device_attach_slot: Arc<Semaphore>,
    failures: Arc<RepeatedFailures>,
}

impl Manager {
    /// Starts the driver of a VM. Without it no command is answered, so its panic is a failure of the launcher.
    pub fn start(vm: Arc<VmContext>, supervisor: &mut Supervisor) -> Manager {
        let (inbox, received) = mpsc::channel(INBOX_CAPACITY);
        let driver = Driver::new(Arc::clone(&vm), received);
        supervisor.spawn_once("commands", driver.run());
        Manager {
            vm,
            inbox,
            last_id: Arc::default(),
            host_device_attach_slot: Arc::new(Semaphore::new(1)),
            failures: Arc::default(),
        }
    }

    /// The VM, for reading.
    pub fn vm(&self) -> &Arc<VmContext> {
        &self.vm
    }

    /// Returns an error if a request is about another VM than this launcher's.
    pub(crate) fn require_own_vm(&self, vmi: &Vmi) -> Result<(), CommandError> {
        ops::require_own_vm(&self.vm, vmi)
    }

    /// Runs a command and returns its result. All log lines about the request contain its number.
    pub async fn run(&self, command: Command) -> CommandResult {
        let id = CommandId(self.last_id.fetch_add(1, Ordering::Relaxed) + 1);
        self.send_request(id, command)
            .instrument(request_span(id))
            .await
    }

    /// Attaches SR-IOV interfaces in the background; failures are only logged.
    ///
    /// # Errors
    /// [`CommandError::HostDevicesInProgress`] if such an attach is running already.
    pub fn start_attaching_host_devices(&self, request: SyncRequest) -> Result<(), CommandError> {
        let slot = Arc::clone(&self.host_device_attach_slot).try_acquire_owned();
        let slot = slot.map_err(|_| CommandError::HostDevicesInProgress)?;
        let manager = self.clone();
        tokio::spawn(async move {
            let command = Command::AttachHostDevices(Arc::new(request));
            // The result is logged by `run`.
            let _ = manager.run(command).await;
            drop(slot);
        });
        Ok(())
    }

    async fn send_request(&self, id: CommandId, command: Command) -> CommandResult {
        let kind = command.kind();
        let name = kind.rule().name;
        if kind.ends_vm() && *self.vm.phase.borrow() == Phase::Gone {
            // Answered here, also after the driver has ended: virt-handler may send a kill or delete twice.
            tracing::info!("{name}: the domain is gone already");
            return Ok(CommandSuccess::Unchanged);
        }
        let (caller, answer) = oneshot::channel();
        let request = Message::Request {
            id,
            command,
            caller,
        };
        tracing::debug!("{name}: requested");
        let outcome = match self.inbox.send(request).await {
            Ok(()) => answer.await.unwrap_or_else(|_| exiting()),
            Err(_) => exiting(),
        };
        let outcome = match outcome {
            // The VM has no QEMU any more, and its definition disappears with the launcher.
            Err(error) if kind.ends_vm() && error.is_exiting() && self.is_down() => {
                // virt-handler has just sent a request, so it can be notified.
                self.vm.notifier.retry_now();
                Ok(CommandSuccess::Unchanged)
            }
            outcome => outcome,
        };
        if outcome.is_ok() {
            self.failures.forget(name);
        }
        match &outcome {
            Ok(CommandSuccess::Changed) => tracing::info!("{name}: done"),
            // virt-handler repeats requests that describe the desired VM, every few seconds.
            Ok(CommandSuccess::Unchanged) if kind.rule().repeat == Repeat::JoinOrReplace => {
                tracing::debug!("{name}: nothing to do");
            }
            Ok(CommandSuccess::Unchanged) => tracing::info!("{name}: nothing to do"),
            Err(error) => self.failures.log(name, &error.message()),
        }
        outcome
    }

    fn is_down(&self) -> bool {
        matches!(*self.vm.phase.borrow(), Phase::Down | Phase::Gone)
    }

    /// Refuses further requests, and waits until the running commands have ended.
    pub async fn close(&self) {
        if self.inbox.send(Message::Close).await.is_ok() {
            self.inbox.closed().await;
        }
    }
}

fn exiting() -> CommandResult {
    Err(Arc::new(CommandError::from(CommandRefusal::Exiting)))
}

/// The names of the VM that this launcher runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Namespace of the VMI.
    pub namespace: String,
    /// Name of the VMI.
    pub name: String,
    /// UID of the VMI.
    pub uid: String,
    /// libvirt's name of the domain.
    pub domain: String,
}

impl Identity {
    /// The identity of a VMI.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Identity {
        Identity {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            domain: format!("{namespace}_{name}"),
        }
    }

    /// The context of a hook's call, for this reason.
    pub fn invocation(&self, reason: Reason) -> Invocation {
        Invocation {
            reason,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            domain: self.domain.clone(),
        }
    }
}
