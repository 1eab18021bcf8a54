//! One reconcile pass over the VMI: decide, carry out, write the status.

use std::time::{Duration, Instant};

use proto::cmd::v1::EmptyRequest;
use tonic::Request;

use super::VmController;
use super::calls_with_deadline::{CallError, call_with_deadline, command_with_deadline};
use super::decision_rules::{Decision, LauncherState, decide, is_early_delete, next_phase};
use super::in_memory_api_server::{VmiObject, VmiStatus};
use super::notified_domain::NotifiedDomain;
use super::steps_and_violations::Step;
use crate::emulated_virt_handler::command_client::{Answer, Commands, QUERY_TIMEOUT};
use crate::vmi_builder::Vmi;

/// The delay before the VMI of a launcher without a socket is reconciled again.
const MISSING_SOCKET_DELAY: Duration = Duration::from_secs(1);
/// The delay before a VMI is reconciled again after a stale domain with its name was dropped.
const STALE_DOMAIN_DELAY: Duration = Duration::from_secs(5);

impl VmController {
    /// Reconciles queued keys until the task is aborted.
    pub(super) async fn work(&self) {
        loop {
            self.queue.take().await;
            match self.reconcile().await {
                Ok(()) => self.queue.forget_failures(),
                Err(error) => {
                    self.step_log.add(Step::Failed(error));
                    self.queue.retry();
                }
            }
            self.queue.done();
        }
    }

    async fn reconcile(&self) -> Result<(), String> {
        let Ok(object) = self.api_server.cached() else {
            return Ok(());
        };
        let domain = self.domains.get();
        let vmi = object.as_ref().map(VmiObject::facts);
        let launcher = self.launcher.launcher_state();
        let now = jiff::Timestamp::now().as_second();
        let decision = decide(vmi.as_ref(), domain.as_ref(), launcher, now);
        self.step_log.add(Step::Decided {
            decision,
            phase: vmi.as_ref().map(|vmi| vmi.phase),
            domain: state_of(domain.as_ref()),
        });
        let result = match decision {
            Decision::Ignore => return Ok(()),
            Decision::CleanUpStale => {
                self.clean_up_stale(domain.as_ref());
                return Ok(());
            }
            Decision::Nothing | Decision::AwaitShutdown => Ok(()),
            Decision::Sync => self.sync(object.as_ref(), launcher).await,
            Decision::Shutdown { again_after } => {
                self.shut_down(object.as_ref(), again_after).await
            }
            Decision::Kill => self.kill(object.as_ref()).await,
            Decision::Delete => {
                let early = is_early_delete(vmi.as_ref(), domain.as_ref(), launcher);
                self.delete_and_clean_up(object.as_ref(), early).await
            }
        };
        if let Some(object) = &object {
            self.write_status(object, domain.as_ref(), &result).await?;
        }
        result.map_err(|error| error.to_string())
    }

    /// Drops the domain of a pod that no longer exists. No launcher is called.
    fn clean_up_stale(&self, domain: Option<&NotifiedDomain>) {
        let uid = domain.map(|domain| domain.uid.clone()).unwrap_or_default();
        self.step_log.add(Step::Stale { uid });
        self.domains.remove();
        self.queue.add_after(STALE_DOMAIN_DELAY);
    }

    async fn sync(
        &self,
        object: Option<&VmiObject>,
        launcher: LauncherState,
    ) -> Result<(), CallError> {
        match launcher {
            LauncherState::NotInitialized => {
                self.queue.add_after(MISSING_SOCKET_DELAY);
                return Ok(());
            }
            LauncherState::Unresponsive => {
                return Err(CallError::NotConnected(
                    "unresponsive command server".into(),
                ));
            }
            LauncherState::Responsive => {}
        }
        let (client, vmi) = (self.launcher.get().await?, self.vmi_to_send(object));
        self.command("SyncVirtualMachine", client.sync(&vmi)).await
    }

    async fn shut_down(
        &self,
        object: Option<&VmiObject>,
        again_after: Duration,
    ) -> Result<(), CallError> {
        let (client, vmi) = (
            self.launcher.connect_and_ping().await?,
            self.vmi_to_send(object),
        );
        let shut_down = self.command("ShutdownVirtualMachine", client.shutdown(&vmi));
        ignore_disconnect(shut_down.await)?;
        self.queue.add_after(again_after);
        Ok(())
    }

    async fn kill(&self, object: Option<&VmiObject>) -> Result<(), CallError> {
        let (client, vmi) = (
            self.launcher.connect_and_ping().await?,
            self.vmi_to_send(object),
        );
        let call = self.command("KillVirtualMachine", client.kill(&vmi));
        ignore_disconnect(call.await)
    }

    /// Deletes the domain, and closes the client in any case. A launcher that cannot be reached counts as ended.
    async fn delete_and_clean_up(
        &self,
        object: Option<&VmiObject>,
        early: bool,
    ) -> Result<(), CallError> {
        let early = early && !self.step_log.sync_was_refused();
        let deleted = match self.launcher.connect_and_ping().await {
            Ok(client) => self.delete_domain(&client, object).await,
            Err(_) => Ok(()),
        };
        if early {
            self.step_log.add(Step::EarlyDelete {
                refused: matches!(deleted, Err(CallError::Refused(_))),
                restarted: self.step_log.virt_handler_was_restarted(),
            });
        }
        self.launcher.close();
        ignore_disconnect(deleted)?;
        self.domains.remove();
        Ok(())
    }

    async fn delete_domain(
        &self,
        client: &Commands,
        object: Option<&VmiObject>,
    ) -> Result<(), CallError> {
        let vmi = self.vmi_to_send(object);
        self.command("DeleteVirtualMachine", client.delete(&vmi))
            .await
    }

    /// The VMI to send to the launcher: the cluster's, or the last known one if the cluster no longer has it.
    fn vmi_to_send(&self, object: Option<&VmiObject>) -> Vmi {
        object.map_or_else(|| self.vmi.clone(), VmiObject::to_vmi)
    }

    async fn command(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<Answer, tonic::Status>>,
    ) -> Result<(), CallError> {
        let begin = Instant::now();
        let result = command_with_deadline(call).await;
        self.log_call(method, begin, &result);
        result
    }

    fn log_call(&self, method: &'static str, begin: Instant, result: &Result<(), CallError>) {
        self.step_log.add(Step::Called {
            method,
            duration: begin.elapsed(),
            error: result.as_ref().err().map(CallError::to_string),
        });
    }

    /// Writes the status that follows from `domain`, from which the decision was made, even if a newer one has arrived.
    async fn write_status(
        &self,
        object: &VmiObject,
        domain: Option<&NotifiedDomain>,
        result: &Result<(), CallError>,
    ) -> Result<(), String> {
        let old = &object.status;
        if old.phase.is_final() {
            return Ok(());
        }
        let domain = domain.filter(|domain| !domain.deleted);
        let agent_connected = domain.is_some_and(|domain| domain.agent_connected);
        let phase = next_phase(&object.facts(), domain, self.launcher.launcher_state());
        if agent_connected {
            self.guest_info().await.map_err(|error| error.to_string())?;
        }
        let new = VmiStatus {
            phase,
            is_initialized: true,
            agent_connected,
            paused: domain.is_some_and(|domain| domain.is("Paused", "User")),
            sync_error: result.as_ref().err().map(CallError::to_string),
            observed: domain.map_or_else(|| old.observed.clone(), |domain| domain.observed.clone()),
        };
        if new == *old {
            return Ok(());
        }
        let write_result = self.api_server.write_status(object, new);
        write_result.map_err(|_| "the VMI was changed meanwhile".to_owned())?;
        if phase != old.phase {
            self.step_log.add(Step::Phase(phase));
        }
        Ok(())
    }

    /// Calls `GetGuestInfo`. virt-handler does not write the status if this call fails.
    async fn guest_info(&self) -> Result<(), CallError> {
        let mut client = self.launcher.get().await?.raw;
        let begin = Instant::now();
        let mut request = Request::new(EmptyRequest {});
        request.set_timeout(QUERY_TIMEOUT);
        let call = async {
            let answer = client.get_guest_info(request).await?.into_inner();
            Ok(Answer::of(answer.response))
        };
        let result = call_with_deadline(QUERY_TIMEOUT, call).await;
        self.log_call("GetGuestInfo", begin, &result);
        result
    }
}

/// Ignores a closed connection: a launcher that exits during a shutdown, kill or delete is not an error.
fn ignore_disconnect(result: Result<(), CallError>) -> Result<(), CallError> {
    match result {
        Err(CallError::Disconnected) => Ok(()),
        result => result,
    }
}

/// The domain as `Status/Reason`, or `-` if there is none.
pub(super) fn state_of(domain: Option<&NotifiedDomain>) -> String {
    domain.map_or_else(|| "-".to_owned(), NotifiedDomain::state)
}
