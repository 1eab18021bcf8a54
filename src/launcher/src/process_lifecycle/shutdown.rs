//! Ends the launcher: the running job, the VM, the last notifications and the daemons.

use std::sync::Arc;
use std::time::Duration;

use super::LauncherWithDaemons;
use crate::jobs::AbortReason;
use crate::manager::{Command, Phase, Role};

/// How long to wait for virt-handler to accept the last notification, as KubeVirt's launcher does.
const FINAL_NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(45);
/// How long to wait for that after a delete: virt-handler knows how the VM ended, and closes its notification socket.
const FINAL_NOTIFICATION_TIMEOUT_DELETED: Duration = Duration::from_secs(5);
/// How long to wait for that after virt-handler has given up the migration to this pod: it needs no notification, and
/// closes its socket.
const FINAL_NOTIFICATION_TIMEOUT_GIVEN_UP: Duration = Duration::from_millis(500);
/// How long to wait for that in a standalone launcher, which has no virt-handler.
const FINAL_NOTIFICATION_TIMEOUT_STANDALONE: Duration = Duration::from_millis(500);
/// How long the daemons of a migration's target outlive a VM that has not arrived. The source's libvirt is still
/// ending its side of the migration through them; if they end before, KubeVirt's launcher records "client socket is
/// closed" as the reason of the failure, for instance instead of a cancellation. virt-handler's request to clean up,
/// which follows what the source has recorded, ends this wait.
const SOURCE_END_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of commands that are running when the launcher ends. It is short so that a hung daemon does not delay the
/// end, which takes less than 3 s.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of ending the VM, if it runs or is being started, and of the running commands. A kill takes at most 19 s.
const END_VM_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait until the observer has published how the VM ended.
const END_PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of closing the daemons and the sockets of a migration to this pod, which are closed concurrently, beside the
/// command server.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

impl LauncherWithDaemons {
    /// Kills the VM, even if it is being started: no VM outlives its launcher.
    async fn end_vm(&self) {
        if let Err(error) = self.running.manager.run(Command::Kill).await {
            tracing::warn!(reason = error.message(), "could not end the VM");
        }
        self.running.manager.close().await;
        let ended = self.vm().start_notification.wait_until_ended();
        if tokio::time::timeout(END_PUBLISH_TIMEOUT, ended)
            .await
            .is_err()
        {
            tracing::warn!("libvirt has not reported the end of the VM");
        }
    }

    /// Closes the manager, after ending the VM if it is not down.
    async fn close(&self) {
        let phase = *self.running.phase.borrow();
        let closed = match phase {
            Phase::Down | Phase::Gone => {
                tokio::time::timeout(CLOSE_TIMEOUT, self.running.manager.close()).await
            }
            _ => tokio::time::timeout(END_VM_TIMEOUT, self.end_vm()).await,
        };
        if closed.is_err() {
            tracing::warn!("a command was still under way when the launcher ended");
        }
    }

    /// Ends the launcher: the job, the VM, and after the last notifications the tasks, the daemons and the sockets.
    pub(super) async fn shut_down(self, standalone: bool) {
        let vm = Arc::clone(self.vm());
        let flush_timeout = match standalone {
            true => FINAL_NOTIFICATION_TIMEOUT_STANDALONE,
            false if vm.driver_state().migration_given_up => FINAL_NOTIFICATION_TIMEOUT_GIVEN_UP,
            false if vm.driver_state().deleted => FINAL_NOTIFICATION_TIMEOUT_DELETED,
            false => FINAL_NOTIFICATION_TIMEOUT,
        };
        self.vm().jobs.end(AbortReason::Exit).await;
        self.close().await;
        let is_target = vm.driver_state().role == Role::Target;
        let source_ended = tokio::select! {
            is_flushed = vm.notifier.flush(flush_timeout) => {
                if !is_flushed && !standalone {
                    tracing::warn!("the last notifications did not reach virt-handler");
                }
                vm.driver_state().migration_given_up
            }
            // A virt-handler that was down when the migration failed requests the clean-up after its restart, and then
            // accepts no notification.
            () = vm.target_cleanup.notified(), if is_target => true,
        };
        let was_vm_arriving = *vm.phase.borrow() != Phase::Absent;
        if is_target && was_vm_arriving && !source_ended {
            let _ = tokio::time::timeout(SOURCE_END_TIMEOUT, vm.target_cleanup.notified()).await;
        }
        // Before the daemons end, so that nothing connects to them again.
        self.vm().client.stop();
        self.running.tasks.abort();
        let daemons = async {
            if let Some(daemons) = self.daemons {
                daemons.shutdown().await;
            }
        };
        let sockets = vm.close_target_sockets();
        let stop = async { tokio::join!(daemons, sockets) };
        let stop = tokio::time::timeout(STOP_TIMEOUT, stop);
        let ((), stopped) = tokio::join!(self.running.server.stop(), stop);
        if stopped.is_err() {
            tracing::warn!("the daemons, or the sockets of a migration, were not closed in time");
        }
        tracing::info!("exiting");
    }
}
