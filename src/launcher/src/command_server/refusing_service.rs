//! The command service of a launcher whose start was refused. It has no VM: it tells virt-handler the reason, so that
//! virt-handler records it with the VMI.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proto::cmd::info::cmd_info_server::CmdInfo;
use proto::cmd::info::{CmdInfoRequest, CmdInfoResponse};
use proto::cmd::v1::cmd_server::Cmd;
use proto::cmd::v1::*;
use tokio::sync::watch;
use tonic::{Request, Status};

use super::command_service::COMMAND_VERSION;
use super::{Reply, decode_requests, failed, ok, reply};
use crate::manager::Identity;
use crate::notify::{Notifier, Receipt};

/// How long a sync waits until virt-handler has the event. virt-handler waits 20 s for its answer.
const EVENT_TIMEOUT: Duration = Duration::from_secs(3);

/// What virt-handler has requested so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HandlerRequests {
    /// It wanted the VM to run here, and is given the reason why it does not. It has the event already.
    pub(crate) start: bool,
    /// It wants the launcher to end.
    pub(crate) end: bool,
}

/// Answers each command with the reason of the refusal, but for those that a launcher without a VM can answer.
#[derive(Clone)]
pub(crate) struct RefusingService {
    reason: Arc<str>,
    identity: Identity,
    socket: PathBuf,
    notifier: Notifier,
    event: Receipt,
    requests: watch::Sender<HandlerRequests>,
}

impl RefusingService {
    /// A service on `socket` for the VM that is not started. `notifier` is told of each request, as virt-handler makes its
    /// notification socket when it connects; `event` is the receipt of the event about the refusal.
    pub(crate) fn new(
        reason: &str,
        identity: Identity,
        socket: PathBuf,
        notifier: Notifier,
        event: Receipt,
    ) -> RefusingService {
        RefusingService {
            reason: format!("virt-launcher did not start: {reason}").into(),
            identity,
            socket,
            notifier,
            event,
            requests: watch::Sender::default(),
        }
    }

    /// What virt-handler requests, until the launcher ends.
    pub(crate) fn requests(&self) -> watch::Receiver<HandlerRequests> {
        self.requests.subscribe()
    }

    fn refusal(&self) -> Response {
        self.notifier.retry_now();
        failed(&self.reason)
    }

    /// Refuses the VM. virt-handler ends a VMI whose launcher has no socket, and with it closes its own socket. So it gets the
    /// event first; and the socket is gone before it has the answer, so that one update of the VMI has both the end and the
    /// reason: it would remove the reason with the next.
    async fn refuse_start(&self) -> Response {
        let refusal = self.refusal();
        let event = tokio::time::timeout(EVENT_TIMEOUT, self.event.clone());
        if event.await.is_ok() {
            // A socket that stays delays the end of the VMI.
            let _ = tokio::fs::remove_file(&self.socket).await;
            self.requests.send_modify(|requests| requests.start = true);
        }
        refusal
    }

    /// There is nothing to end but the launcher.
    fn end(&self, request: &VmiRequest) -> Response {
        match decode_requests::vmi(request.vmi.as_ref()) {
            Ok(vmi) if vmi.domain_name() == self.identity.domain => {
                self.notifier.retry_now();
                self.requests.send_modify(|requests| requests.end = true);
                ok()
            }
            Ok(_) => self.refusal(),
            Err(error) => failed(error),
        }
    }
}

#[tonic::async_trait]
impl CmdInfo for RefusingService {
    async fn info(&self, _: Request<CmdInfoRequest>) -> Reply<CmdInfoResponse> {
        reply(CmdInfoResponse {
            supported_cmd_versions: vec![COMMAND_VERSION],
        })
    }
}

/// Implements the service: `commands` and `queries` are answered with the reason; a query's answer has a type of its own.
macro_rules! implement_refusing_service {
    (commands: { $($command:ident($command_request:ty),)* }
     queries: { $($query:ident($query_request:ty) -> $answer:ident,)* }
     others: { $($other:tt)* }) => {
        #[tonic::async_trait]
        impl Cmd for RefusingService {
            $(async fn $command(&self, _: Request<$command_request>) -> Reply<Response> {
                reply(self.refusal())
            })*

            $(async fn $query(&self, _: Request<$query_request>) -> Reply<$answer> {
                let response = Some(self.refusal());
                reply($answer { response, ..Default::default() })
            })*

            $($other)*
        }
    };
}

implement_refusing_service! {
    commands: {
        sync_virtual_machine_cp_us(VmiRequest),
        sync_virtual_machine_memory(VmiRequest),
        hotplug_host_devices(VmiRequest),
        pause_virtual_machine(VmiRequest),
        unpause_virtual_machine(VmiRequest),
        reset_virtual_machine(VmiRequest),
        soft_reboot_virtual_machine(VmiRequest),
        shutdown_virtual_machine(VmiRequest),
        freeze_virtual_machine(FreezeRequest),
        unfreeze_virtual_machine(VmiRequest),
        migrate_virtual_machine(MigrationRequest),
        cancel_virtual_machine_migration(VmiRequest),
        finalize_virtual_machine_migration(VmiRequest),
        virtual_machine_memory_dump(MemoryDumpRequest),
        inject_launch_secret(InjectLaunchSecretRequest),
        backup_virtual_machine(BackupRequest),
    }
    queries: {
        get_domain_stats(EmptyRequest) -> DomainStatsResponse,
        get_guest_info(EmptyRequest) -> GuestInfoResponse,
        get_users(EmptyRequest) -> GuestUserListResponse,
        get_filesystems(EmptyRequest) -> GuestFilesystemsResponse,
        get_qemu_version(EmptyRequest) -> QemuVersionResponse,
        get_sev_info(EmptyRequest) -> SevInfoResponse,
        get_launch_measurement(VmiRequest) -> LaunchMeasurementResponse,
        get_domain_dirty_rate_stats(EmptyRequest) -> DirtyRateStatsResponse,
        redefine_checkpoint(RedefineCheckpointRequest) -> RedefineCheckpointResponse,
    }
    others: {
        async fn ping(&self, _: Request<EmptyRequest>) -> Reply<Response> {
            reply(ok())
        }

        async fn sync_virtual_machine(&self, _: Request<VmiRequest>) -> Reply<Response> {
            reply(self.refuse_start().await)
        }

        async fn sync_migration_target(&self, _: Request<VmiRequest>) -> Reply<Response> {
            reply(self.refuse_start().await)
        }

        async fn kill_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
            reply(self.end(request.get_ref()))
        }

        async fn delete_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
            reply(self.end(request.get_ref()))
        }

        async fn signal_target_pod_cleanup(&self, request: Request<VmiRequest>) -> Reply<Response> {
            reply(self.end(request.get_ref()))
        }

        /// As before a definition: there is no domain.
        async fn get_domain(&self, _: Request<EmptyRequest>) -> Reply<DomainResponse> {
            reply(DomainResponse {
                response: Some(ok()),
                ..Default::default()
            })
        }

        // virt-handler reads failures of these from gRPC alone.

        async fn exec(&self, _: Request<ExecRequest>) -> Reply<ExecResponse> {
            Err(Status::failed_precondition(self.refusal().message))
        }

        async fn guest_ping(&self, _: Request<GuestPingRequest>) -> Reply<GuestPingResponse> {
            Err(Status::failed_precondition(self.refusal().message))
        }

        async fn get_screenshot(&self, _: Request<VmiRequest>) -> Reply<ScreenshotResponse> {
            Err(Status::failed_precondition(self.refusal().message))
        }

        async fn get_vm_stats(&self, _: Request<VmStatsRequest>) -> Reply<VmStatsResponse> {
            Err(Status::failed_precondition(self.refusal().message))
        }
    }
}
