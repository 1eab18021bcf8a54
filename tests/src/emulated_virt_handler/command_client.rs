//! The client of the launcher's command service, with virt-handler's deadlines.

mod queries_and_guest_agent_calls;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use proto::cmd::v1::cmd_client::CmdClient;
use proto::cmd::v1::{
    BackupRequest, FreezeRequest, MemoryDumpRequest, RedefineCheckpointRequest, Response,
    VmiRequest,
};
use serde_json::Value;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::grpc_over_unix_socket::dial;
use crate::vmi_builder::Vmi;

/// virt-handler's deadline of a command.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
/// virt-handler's deadline of a query.
pub(crate) const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// virt-handler's deadline of a freeze.
pub(crate) const FREEZE_TIMEOUT: Duration = Duration::from_secs(60);

/// The launcher's answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the command succeeded.
    pub success: bool,
    /// The error message.
    pub message: String,
}

impl Answer {
    pub(crate) fn of(response: Option<Response>) -> Answer {
        let response = response.unwrap_or_default();
        Answer {
            success: response.success,
            message: response.message,
        }
    }

    /// Fails with the launcher's message unless the command succeeded.
    pub fn accepted(self) -> Result<()> {
        if !self.success {
            bail!("the launcher refused: {}", self.message);
        }
        Ok(())
    }
}

/// A client of one launcher.
#[derive(Clone, Debug)]
pub struct Commands {
    channel: Channel,
    /// The generated client without deadlines, for calls that have no method here.
    pub raw: CmdClient<Channel>,
}

/// The generated client with a deadline for every call.
pub(crate) type DeadlineClient = CmdClient<InterceptedService<Channel, CallDeadline>>;

/// Sets the deadline of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallDeadline(Duration);

impl Interceptor for CallDeadline {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.set_timeout(self.0);
        Ok(request)
    }
}

impl Commands {
    /// Waits for the socket and connects to it.
    pub async fn connect(socket: &Path, deadline: Duration) -> Result<Commands> {
        let what = format!("the launcher's socket {}", socket.display());
        let channel = crate::wait_until(&what, deadline, async || dial(socket).await.ok()).await?;
        Ok(Commands::on_channel(channel))
    }

    /// A client that uses a channel.
    pub(super) fn on_channel(channel: Channel) -> Commands {
        Commands {
            raw: CmdClient::new(channel.clone()),
            channel,
        }
    }

    /// The generated client, with this deadline for every call.
    pub(crate) fn with_deadline(&self, deadline: Duration) -> DeadlineClient {
        CmdClient::with_interceptor(self.channel.clone(), CallDeadline(deadline))
    }

    /// `SyncVirtualMachine`.
    pub async fn sync(&self, vmi: &Vmi) -> Result<Answer, Status> {
        let request = request_with_deadline(vmi.request(), COMMAND_TIMEOUT);
        Ok(Answer::of(Some(
            self.raw
                .clone()
                .sync_virtual_machine(request)
                .await?
                .into_inner(),
        )))
    }

    /// `SyncVirtualMachine` with these bytes as the VMI's JSON, which may be invalid.
    pub async fn sync_bytes(&self, vmi_json: &[u8]) -> Result<Answer, Status> {
        let vmi = proto::cmd::v1::Vmi {
            vmi_json: vmi_json.to_vec(),
        };
        let request = request_with_deadline(
            VmiRequest {
                vmi: Some(vmi),
                options: None,
            },
            COMMAND_TIMEOUT,
        );
        Ok(Answer::of(Some(
            self.raw
                .clone()
                .sync_virtual_machine(request)
                .await?
                .into_inner(),
        )))
    }

    /// `FreezeVirtualMachine`; after `seconds` the launcher thaws the guest itself.
    pub async fn freeze(&self, vmi: &Vmi, seconds: i32) -> Result<Answer, Status> {
        let request = FreezeRequest {
            vmi: vmi.request().vmi,
            unfreeze_timeout_seconds: seconds,
        };
        let mut client = self.raw.clone();
        let answer = client
            .freeze_virtual_machine(request_with_deadline(request, FREEZE_TIMEOUT))
            .await?;
        Ok(Answer::of(Some(answer.into_inner())))
    }

    /// `VirtualMachineMemoryDump`.
    pub async fn memory_dump(&self, vmi: &Vmi, path: &str) -> Result<Answer, Status> {
        let request = MemoryDumpRequest {
            vmi: vmi.request().vmi,
            dump_path: path.to_owned(),
        };
        let mut client = self.raw.clone();
        let answer = client
            .virtual_machine_memory_dump(request_with_deadline(request, COMMAND_TIMEOUT))
            .await?;
        Ok(Answer::of(Some(answer.into_inner())))
    }

    /// `BackupVirtualMachine`, with KubeVirt's options.
    pub async fn backup(&self, vmi: &Vmi, options: &Value) -> Result<Answer, Status> {
        let request = BackupRequest {
            vmi: vmi.request().vmi,
            options: options.to_string().into_bytes(),
        };
        let mut client = self.raw.clone();
        let answer = client
            .backup_virtual_machine(request_with_deadline(request, COMMAND_TIMEOUT))
            .await?;
        Ok(Answer::of(Some(answer.into_inner())))
    }

    /// `RedefineCheckpoint`; also whether the checkpoint is invalid.
    pub async fn redefine_checkpoint(
        &self,
        vmi: &Vmi,
        checkpoint: &Value,
    ) -> Result<(Answer, bool), Status> {
        let request = RedefineCheckpointRequest {
            vmi: vmi.request().vmi,
            checkpoint: checkpoint.to_string().into_bytes(),
        };
        let mut client = self.raw.clone();
        let answer = client
            .redefine_checkpoint(request_with_deadline(request, COMMAND_TIMEOUT))
            .await?;
        let answer = answer.into_inner();
        Ok((Answer::of(answer.response), answer.checkpoint_invalid))
    }
}

fn request_with_deadline<T>(message: T, deadline: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    request
}

/// Defines methods for the commands whose request is a VMI and whose response is an [`Answer`].
macro_rules! vmi_commands {
    ($($(#[$doc:meta])* $name:ident => $rpc:ident;)*) => {
        impl Commands {
            $($(#[$doc])*
            pub async fn $name(&self, vmi: &Vmi) -> Result<Answer, Status> {
                let request = request_with_deadline(vmi.request(), COMMAND_TIMEOUT);
                Ok(Answer::of(Some(self.raw.clone().$rpc(request).await?.into_inner())))
            })*
        }
    };
}

vmi_commands! {
    /// `PauseVirtualMachine`.
    pause => pause_virtual_machine;
    /// `UnpauseVirtualMachine`.
    unpause => unpause_virtual_machine;
    /// `UnfreezeVirtualMachine`.
    unfreeze => unfreeze_virtual_machine;
    /// `ResetVirtualMachine`.
    reset => reset_virtual_machine;
    /// `SoftRebootVirtualMachine`.
    soft_reboot => soft_reboot_virtual_machine;
    /// `ShutdownVirtualMachine`.
    shutdown => shutdown_virtual_machine;
    /// `KillVirtualMachine`.
    kill => kill_virtual_machine;
    /// `DeleteVirtualMachine`.
    delete => delete_virtual_machine;
}
