//! How the rest of the launcher asks for things.

use std::sync::Arc;

use domain::vmi::Vmi;
use tokio::sync::{mpsc, oneshot};

use super::driver::{Driver, Message, Outcome, Payload};
use super::error::OpError;
use super::ops::SyncRequest;
use super::requests::{Refusal, Verb};
use super::vm::Vm;

/// Requests on their way to the driver; it takes them in at once.
const INBOX: usize = 64;

/// Asks the driver. Dropping a call's future drops the answer, not the operation.
#[derive(Clone)]
pub struct Manager {
    vm: Arc<Vm>,
    inbox: mpsc::Sender<Message>,
}

impl Manager {
    /// Starts the driver of a VM.
    pub fn start(vm: Arc<Vm>) -> Manager {
        let (inbox, received) = mpsc::channel(INBOX);
        tokio::spawn(Driver::new(Arc::clone(&vm), received).run());
        Manager { vm, inbox }
    }

    /// The VM, for what only looks.
    pub fn vm(&self) -> &Arc<Vm> {
        &self.vm
    }

    /// Makes the VM what it should be.
    pub async fn sync(&self, request: SyncRequest) -> Outcome {
        let boot = request.vmi.uid().to_owned();
        self.ask(Verb::Sync { boot }, Payload::Sync(Box::new(request)))
            .await
    }

    /// Stops the processors.
    pub async fn pause(&self) -> Outcome {
        self.ask(Verb::Pause, Payload::None).await
    }

    /// Lets them run again.
    pub async fn unpause(&self) -> Outcome {
        self.ask(Verb::Unpause, Payload::None).await
    }

    /// Presses the reset button.
    pub async fn reset(&self) -> Outcome {
        self.ask(Verb::Reset, Payload::None).await
    }

    /// Asks the guest to reboot.
    pub async fn soft_reboot(&self, vmi: Vmi) -> Outcome {
        self.ask(Verb::SoftReboot, Payload::Vmi(Box::new(vmi)))
            .await
    }

    /// Asks the guest to power off.
    pub async fn shutdown(&self) -> Outcome {
        self.ask(Verb::Shutdown, Payload::None).await
    }

    /// Ends QEMU.
    pub async fn kill(&self) -> Outcome {
        self.ask(Verb::Kill, Payload::None).await
    }

    /// Makes libvirt forget the domain.
    pub async fn delete(&self) -> Outcome {
        self.ask(Verb::Delete, Payload::None).await
    }

    /// Takes no more requests, and waits until what runs has ended.
    pub async fn close(&self) {
        if self.inbox.send(Message::Close).await.is_ok() {
            self.inbox.closed().await;
        }
    }

    async fn ask(&self, verb: Verb, payload: Payload) -> Outcome {
        let (caller, answer) = oneshot::channel();
        let request = Message::Request {
            verb,
            payload,
            caller,
        };
        let gone = || Arc::new(OpError::from(Refusal::Exiting));
        self.inbox.send(request).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}
