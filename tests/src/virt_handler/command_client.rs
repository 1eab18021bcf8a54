//! The command client, with virt-handler's deadlines.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use proto::cmd::info::CmdInfoRequest;
use proto::cmd::info::cmd_info_client::CmdInfoClient;
use proto::cmd::v1::cmd_client::CmdClient;
use proto::cmd::v1::{
    BackupRequest, EmptyRequest, ExecRequest, ExecResponse, FreezeRequest, GuestPingRequest,
    MemoryDumpRequest, RedefineCheckpointRequest, Response, VmiRequest,
};
use serde_json::Value;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::grpc_channel::dial;
use crate::vmi_builder::Vmi;

/// virt-handler gives up a command after this long.
pub(crate) const COMMAND: Duration = Duration::from_secs(20);
/// virt-handler gives up a query after this long.
pub(crate) const QUERY: Duration = Duration::from_secs(5);

/// virt-handler gives up a freeze after this long.
pub(crate) const FREEZE: Duration = Duration::from_secs(60);

/// What the launcher answered to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether it did what was asked.
    pub success: bool,
    /// Why not.
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

    /// Fails with the launcher's message unless it succeeded.
    pub fn ok(self) -> Result<()> {
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
    /// The generated client, for calls that have no method here; without deadlines.
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
    /// Connects to the socket once it is there.
    pub async fn connect(socket: &Path, deadline: Duration) -> Result<Commands> {
        let what = format!("the launcher's socket {}", socket.display());
        let channel = crate::until(&what, deadline, async || dial(socket).await.ok()).await?;
        Ok(Commands::over(channel))
    }

    /// A client over a connection.
    pub(super) fn over(channel: Channel) -> Commands {
        Commands {
            raw: CmdClient::new(channel.clone()),
            channel,
        }
    }

    /// The generated client, all of whose calls have this deadline.
    pub(crate) fn with_deadline(&self, deadline: Duration) -> DeadlineClient {
        CmdClient::with_interceptor(self.channel.clone(), CallDeadline(deadline))
    }

    /// The versions of the command service.
    pub async fn info(&self) -> Result<Vec<u32>> {
        let mut client = CmdInfoClient::new(self.channel.clone());
        let answer = client.info(timed(CmdInfoRequest {}, QUERY)).await?;
        Ok(answer.into_inner().supported_cmd_versions)
    }

    /// `SyncVirtualMachine`.
    pub async fn sync(&self, vmi: &Vmi) -> Result<Answer, Status> {
        let request = timed(vmi.request(), COMMAND);
        Ok(Answer::of(Some(
            self.raw
                .clone()
                .sync_virtual_machine(request)
                .await?
                .into_inner(),
        )))
    }

    /// `SyncVirtualMachine` with whatever bytes in place of a VMI.
    pub async fn sync_bytes(&self, vmi_json: &[u8]) -> Result<Answer, Status> {
        let vmi = proto::cmd::v1::Vmi {
            vmi_json: vmi_json.to_vec(),
        };
        let request = timed(
            VmiRequest {
                vmi: Some(vmi),
                options: None,
            },
            COMMAND,
        );
        Ok(Answer::of(Some(
            self.raw
                .clone()
                .sync_virtual_machine(request)
                .await?
                .into_inner(),
        )))
    }

    /// `Ping`.
    pub async fn ping(&self) -> Result<Answer, Status> {
        Ok(Answer::of(Some(
            self.raw
                .clone()
                .ping(timed(EmptyRequest {}, QUERY))
                .await?
                .into_inner(),
        )))
    }

    /// `GetDomain`, as JSON; null when there is none.
    pub async fn domain(&self) -> Result<Value> {
        let answer = self
            .raw
            .clone()
            .get_domain(timed(EmptyRequest {}, QUERY))
            .await?
            .into_inner();
        Answer::of(answer.response).ok()?;
        if answer.domain.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&answer.domain)
            .with_context(|| format!("GetDomain: {}", answer.domain))
    }

    /// `GetDomainStats`, as JSON.
    pub async fn domain_stats(&self) -> Result<Value> {
        let answer = self
            .raw
            .clone()
            .get_domain_stats(timed(EmptyRequest {}, QUERY))
            .await?
            .into_inner();
        Answer::of(answer.response).ok()?;
        serde_json::from_str(&answer.domain_stats)
            .with_context(|| format!("GetDomainStats: {}", answer.domain_stats))
    }

    /// `GetQemuVersion`.
    pub async fn qemu_version(&self) -> Result<String> {
        let answer = self
            .raw
            .clone()
            .get_qemu_version(timed(EmptyRequest {}, QUERY))
            .await?
            .into_inner();
        Answer::of(answer.response).ok()?;
        Ok(answer.version)
    }

    /// `GuestPing`.
    pub async fn guest_ping(&self, vmi: &Vmi, seconds: i32) -> Result<Answer, Status> {
        let request = GuestPingRequest {
            domain_name: vmi.domain(),
            timeout_seconds: seconds,
        };
        Ok(Answer::of(
            self.raw
                .clone()
                .guest_ping(timed(request, COMMAND))
                .await?
                .into_inner()
                .response,
        ))
    }

    /// `Exec` in the guest.
    pub async fn exec(
        &self,
        vmi: &Vmi,
        command: &str,
        args: &[&str],
    ) -> Result<ExecResponse, Status> {
        let request = ExecRequest {
            domain_name: vmi.domain(),
            command: command.to_owned(),
            args: args.iter().map(ToString::to_string).collect(),
            timeout_seconds: 10,
        };
        Ok(self
            .raw
            .clone()
            .exec(timed(request, COMMAND))
            .await?
            .into_inner())
    }
}

impl Commands {
    /// `FreezeVirtualMachine`; after `seconds` the launcher thaws the guest itself.
    pub async fn freeze(&self, vmi: &Vmi, seconds: i32) -> Result<Answer, Status> {
        let request = FreezeRequest {
            vmi: vmi.request().vmi,
            unfreeze_timeout_seconds: seconds,
        };
        let mut client = self.raw.clone();
        let answer = client
            .freeze_virtual_machine(timed(request, FREEZE))
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
            .virtual_machine_memory_dump(timed(request, COMMAND))
            .await?;
        Ok(Answer::of(Some(answer.into_inner())))
    }
}

impl Commands {
    /// `BackupVirtualMachine`, with KubeVirt's options.
    pub async fn backup(&self, vmi: &Vmi, options: &Value) -> Result<Answer, Status> {
        let request = BackupRequest {
            vmi: vmi.request().vmi,
            options: options.to_string().into_bytes(),
        };
        let mut client = self.raw.clone();
        let answer = client
            .backup_virtual_machine(timed(request, COMMAND))
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
        let answer = client.redefine_checkpoint(timed(request, COMMAND)).await?;
        let answer = answer.into_inner();
        Ok((Answer::of(answer.response), answer.checkpoint_invalid))
    }
}

/// The commands that take a VMI and answer yes or no.
macro_rules! vmi_commands {
    ($($(#[$doc:meta])* $name:ident => $rpc:ident;)*) => {
        impl Commands {
            $($(#[$doc])*
            pub async fn $name(&self, vmi: &Vmi) -> Result<Answer, Status> {
                let request = timed(vmi.request(), COMMAND);
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

fn timed<T>(message: T, deadline: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    request
}
