//! The gRPC command service: decodes requests, calls the manager or the agent, and encodes responses.

use std::sync::Arc;
use std::time::Duration;

use kubevirt_api::vmi::Vmi;
use libvirt::Screenshot;
use proto::cmd::info::cmd_info_server::CmdInfo;
use proto::cmd::info::{CmdInfoRequest, CmdInfoResponse};
use proto::cmd::v1::cmd_server::Cmd;
use proto::cmd::v1::*;
use tonic::{Request, Status};

use super::{
    Reply, backup_requests, decode_requests, failed, launch_security, ok, outcome, reply,
    vm_queries,
};
use crate::guest_agent;
use crate::jobs;
use crate::logging::RepeatedFailures;
use crate::manager::{Command, Manager, SyncRequest};
use crate::notify::Warning;

/// The only version of the command service.
pub(super) const COMMAND_VERSION: u32 = 1;

/// The probe, in the log.
const GUEST_PING: &str = "guest agent ping";

/// The command service, which virt-handler calls.
#[derive(Clone)]
pub(crate) struct CommandService {
    manager: Manager,
    vm_stats_collector: bool,
    failures: Arc<RepeatedFailures>,
}

impl CommandService {
    /// A service for the manager's VM.
    pub(crate) fn new(manager: Manager, vm_stats_collector: bool) -> CommandService {
        CommandService {
            manager,
            vm_stats_collector,
            failures: Arc::default(),
        }
    }

    /// Runs a command that needs the VMI with its options.
    async fn run(
        &self,
        request: VmiRequest,
        command: impl FnOnce(Arc<SyncRequest>) -> Command,
    ) -> Response {
        let request = match decode_requests::sync_request(request) {
            Ok(request) => request,
            Err(error) => return failed(error),
        };
        match self.require_own_vm(&request.vmi) {
            Ok(()) => outcome(self.manager.run(command(Arc::new(request))).await),
            Err(answer) => answer,
        }
    }

    async fn memory_dump(&self, request: MemoryDumpRequest) -> Response {
        if let Err(answer) = self.decode_vmi(request.vmi.as_ref()) {
            return answer;
        }
        match jobs::MemoryDumpRequest::new(&request.dump_path) {
            Ok(request) => outcome(self.manager.run(Command::MemoryDump(request)).await),
            Err(error) => failed(error),
        }
    }

    async fn freeze(&self, request: FreezeRequest) -> Response {
        let FreezeRequest {
            vmi,
            unfreeze_timeout_seconds: seconds,
        } = request;
        let vmi = match self.decode_vmi(vmi.as_ref()) {
            Ok(vmi) => vmi,
            Err(answer) => return answer,
        };
        let seconds = u64::try_from(seconds).unwrap_or(0);
        let request = guest_agent::FreezeRequest {
            thaw_after: (seconds > 0).then(|| Duration::from_secs(seconds)),
            persistent_tpm: vmi.has_persistent_tpm(),
        };
        outcome(self.manager.run(Command::Freeze(request)).await)
    }

    /// The VMI in a request, or the response for an invalid VMI or another VM than this launcher's.
    fn decode_vmi(&self, message: Option<&proto::cmd::v1::Vmi>) -> Result<Vmi, Response> {
        let vmi = decode_requests::vmi(message).map_err(failed)?;
        self.require_own_vm(&vmi)?;
        Ok(vmi)
    }

    /// The response to a request about another VM than this launcher's.
    fn require_own_vm(&self, vmi: &Vmi) -> Result<(), Response> {
        self.manager.require_own_vm(vmi).map_err(|error| {
            self.failures
                .log("a request about another VM", &error.message());
            failed(error.message())
        })
    }
}

#[tonic::async_trait]
impl CmdInfo for CommandService {
    async fn info(&self, _: Request<CmdInfoRequest>) -> Reply<CmdInfoResponse> {
        reply(CmdInfoResponse {
            supported_cmd_versions: vec![COMMAND_VERSION],
        })
    }
}

/// Runs a command that does not use the VMI in the request; the VMI is only validated.
macro_rules! run_command {
    ($self:ident, $request:ident, $command:expr) => {{
        match $self.decode_vmi($request.get_ref().vmi.as_ref()) {
            Ok(_) => reply(outcome($self.manager.run($command).await)),
            Err(answer) => reply(answer),
        }
    }};
}

#[tonic::async_trait]
impl Cmd for CommandService {
    async fn sync_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
        reply(self.run(request.into_inner(), Command::Sync).await)
    }

    async fn sync_virtual_machine_cp_us(&self, request: Request<VmiRequest>) -> Reply<Response> {
        reply(self.run(request.into_inner(), Command::SetCpus).await)
    }

    async fn sync_virtual_machine_memory(&self, request: Request<VmiRequest>) -> Reply<Response> {
        match self.decode_vmi(request.get_ref().vmi.as_ref()) {
            Ok(vmi) => {
                let command = Command::SetMemory(Box::new(vmi));
                reply(outcome(self.manager.run(command).await))
            }
            Err(answer) => reply(answer),
        }
    }

    async fn hotplug_host_devices(&self, request: Request<VmiRequest>) -> Reply<Response> {
        let request = match decode_requests::sync_request(request.into_inner()) {
            Ok(request) => request,
            Err(error) => return reply(failed(error)),
        };
        reply(match self.require_own_vm(&request.vmi) {
            Ok(()) => match self.manager.start_attaching_host_devices(request) {
                Ok(()) => ok(),
                Err(error) => failed(error.message()),
            },
            Err(answer) => answer,
        })
    }

    async fn pause_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
        run_command!(self, request, Command::Pause)
    }

    async fn unpause_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
        run_command!(self, request, Command::Unpause)
    }

    async fn reset_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
        run_command!(self, request, Command::Reset)
    }

    async fn soft_reboot_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
        match self.decode_vmi(request.get_ref().vmi.as_ref()) {
            Ok(vmi) => {
                let command = Command::SoftReboot(Box::new(vmi));
                reply(outcome(self.manager.run(command).await))
            }
            Err(answer) => reply(answer),
        }
    }

    async fn shutdown_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
        run_command!(self, request, Command::Shutdown)
    }

    async fn kill_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
        run_command!(self, request, Command::Kill)
    }

    async fn delete_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
        run_command!(self, request, Command::Delete)
    }

    async fn get_domain(&self, _: Request<EmptyRequest>) -> Reply<DomainResponse> {
        reply(vm_queries::domain(self.manager.vm()).await)
    }

    async fn get_domain_stats(&self, _: Request<EmptyRequest>) -> Reply<DomainStatsResponse> {
        reply(vm_queries::domain_stats(self.manager.vm()).await)
    }

    async fn get_qemu_version(&self, _: Request<EmptyRequest>) -> Reply<QemuVersionResponse> {
        reply(vm_queries::qemu_version(self.manager.vm()).await)
    }

    async fn ping(&self, _: Request<EmptyRequest>) -> Reply<Response> {
        reply(ok())
    }

    async fn guest_ping(&self, request: Request<GuestPingRequest>) -> Reply<GuestPingResponse> {
        let request = request.into_inner();
        let vm = self.manager.vm();
        let success = || GuestPingResponse {
            response: Some(ok()),
        };
        if vm.driver_state().agent_probe_paused {
            return reply(success());
        }
        let migrates = || vm.metadata.migration_runs();
        let GuestPingRequest {
            domain_name,
            timeout_seconds,
        } = &request;
        match guest_agent::ping(&vm.client, domain_name, *timeout_seconds, migrates).await {
            Ok(()) => {
                self.failures.forget(GUEST_PING);
                reply(success())
            }
            Err(error) => {
                let reason = error.to_string();
                match self.failures.count(GUEST_PING, &reason) {
                    1 => tracing::warn!(reason, "{GUEST_PING} failed"),
                    times => {
                        tracing::warn!("{GUEST_PING} failed {times} times, for the same reason");
                    }
                }
                vm.notifier.warning(&Warning {
                    reason: "GuestAgentPingFailed",
                    message: format!("GuestAgentPing probe failed for VMI {}", vm.identity.name),
                });
                Err(Status::unknown(error.to_string()))
            }
        }
    }

    async fn exec(&self, request: Request<ExecRequest>) -> Reply<ExecResponse> {
        let command = guest_agent::GuestCommand::from(request.into_inner());
        match guest_agent::exec(&self.manager.vm().client, &command).await {
            Ok(output) => reply(ExecResponse {
                response: Some(ok()),
                exit_code: output.exit_code,
                std_out: output.stdout,
            }),
            Err(error) => Err(Status::unknown(error.to_string())),
        }
    }

    // These three return the agent's latest answers. They succeed also without an agent, since an error would stop
    // virt-handler's reconciliation.

    async fn get_guest_info(&self, _: Request<EmptyRequest>) -> Reply<GuestInfoResponse> {
        reply(vm_queries::guest_info(self.manager.vm()))
    }

    async fn get_users(&self, _: Request<EmptyRequest>) -> Reply<GuestUserListResponse> {
        reply(vm_queries::users(self.manager.vm()))
    }

    async fn get_filesystems(&self, _: Request<EmptyRequest>) -> Reply<GuestFilesystemsResponse> {
        reply(vm_queries::filesystems(self.manager.vm()))
    }

    async fn freeze_virtual_machine(&self, request: Request<FreezeRequest>) -> Reply<Response> {
        reply(self.freeze(request.into_inner()).await)
    }

    async fn unfreeze_virtual_machine(&self, request: Request<VmiRequest>) -> Reply<Response> {
        run_command!(self, request, Command::Unfreeze)
    }

    async fn migrate_virtual_machine(&self, request: Request<MigrationRequest>) -> Reply<Response> {
        reply(match decode_requests::migration(request.into_inner()) {
            Ok(job) => outcome(self.manager.run(Command::Migrate(Arc::new(job))).await),
            Err(error) => failed(error),
        })
    }

    async fn sync_migration_target(&self, request: Request<VmiRequest>) -> Reply<Response> {
        let request = request.into_inner();
        reply(self.run(request, Command::SyncMigrationTarget).await)
    }

    async fn cancel_virtual_machine_migration(
        &self,
        request: Request<VmiRequest>,
    ) -> Reply<Response> {
        run_command!(self, request, Command::CancelMigration)
    }

    /// Ends this pod, the target of a migration that has failed.
    async fn signal_target_pod_cleanup(&self, request: Request<VmiRequest>) -> Reply<Response> {
        match self.decode_vmi(request.get_ref().vmi.as_ref()) {
            Ok(vmi) => {
                self.manager.vm().clean_up_target(&vmi);
                reply(ok())
            }
            Err(answer) => reply(answer),
        }
    }

    async fn finalize_virtual_machine_migration(
        &self,
        request: Request<VmiRequest>,
    ) -> Reply<Response> {
        let request = request.into_inner();
        reply(self.run(request, Command::FinalizeMigration).await)
    }

    async fn virtual_machine_memory_dump(
        &self,
        request: Request<MemoryDumpRequest>,
    ) -> Reply<Response> {
        reply(self.memory_dump(request.into_inner()).await)
    }

    async fn get_sev_info(&self, _: Request<EmptyRequest>) -> Reply<SevInfoResponse> {
        reply(launch_security::sev_info(self.manager.vm()).await)
    }

    async fn get_launch_measurement(
        &self,
        request: Request<VmiRequest>,
    ) -> Reply<LaunchMeasurementResponse> {
        match self.decode_vmi(request.get_ref().vmi.as_ref()) {
            Ok(_) => reply(launch_security::launch_measurement(self.manager.vm()).await),
            Err(answer) => reply(LaunchMeasurementResponse {
                response: Some(answer),
                ..Default::default()
            }),
        }
    }

    async fn inject_launch_secret(
        &self,
        request: Request<InjectLaunchSecretRequest>,
    ) -> Reply<Response> {
        let InjectLaunchSecretRequest { vmi, options } = request.into_inner();
        match self.decode_vmi(vmi.as_ref()) {
            Ok(_) => reply(launch_security::inject_secret(self.manager.vm(), &options).await),
            Err(answer) => reply(answer),
        }
    }

    async fn get_domain_dirty_rate_stats(
        &self,
        _: Request<EmptyRequest>,
    ) -> Reply<DirtyRateStatsResponse> {
        reply(vm_queries::dirty_rate(self.manager.vm()).await)
    }

    async fn get_screenshot(&self, request: Request<VmiRequest>) -> Reply<ScreenshotResponse> {
        // A failure must be a gRPC error: virt-handler shows the content of a response even if it says `success=false`.
        if let Err(answer) = self.decode_vmi(request.get_ref().vmi.as_ref()) {
            return Err(Status::invalid_argument(answer.message));
        }
        let Screenshot { mime, data } = match self.manager.vm().client.screenshot().await {
            Ok(screenshot) => screenshot,
            Err(error) => return Err(Status::unknown(error.message())),
        };
        reply(ScreenshotResponse {
            response: Some(ok()),
            mime,
            data,
        })
    }

    async fn backup_virtual_machine(&self, request: Request<BackupRequest>) -> Reply<Response> {
        let BackupRequest { vmi, options } = request.into_inner();
        reply(match self.decode_vmi(vmi.as_ref()) {
            Ok(vmi) => backup_requests::backup(&self.manager, &vmi, &options).await,
            Err(answer) => answer,
        })
    }

    async fn redefine_checkpoint(
        &self,
        request: Request<RedefineCheckpointRequest>,
    ) -> Reply<RedefineCheckpointResponse> {
        let RedefineCheckpointRequest { vmi, checkpoint } = request.into_inner();
        let (response, checkpoint_invalid) = match self.decode_vmi(vmi.as_ref()) {
            Ok(vmi) => {
                let manager = &self.manager;
                backup_requests::redefine_checkpoint(manager, &vmi, &checkpoint).await
            }
            Err(answer) => (answer, false),
        };
        reply(RedefineCheckpointResponse {
            response: Some(response),
            checkpoint_invalid,
        })
    }

    async fn get_vm_stats(&self, request: Request<VmStatsRequest>) -> Reply<VmStatsResponse> {
        if !self.vm_stats_collector {
            return Err(Status::unknown(
                "VMStatsCollector feature gate is not enabled",
            ));
        }
        reply(vm_queries::vm_stats(self.manager.vm(), request.get_ref()).await)
    }
}
