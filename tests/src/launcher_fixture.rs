//! The fixture of most end-to-end tests: a pod whose launcher is ready, with its virt-handler.

use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::emulated_virt_handler::{Commands, Phase, VirtHandler};
use crate::guest_image::Guest;
use crate::pod::{LauncherUser, Pod};
use crate::vmi_builder::Vmi;

/// How long a launcher may take until it is ready: a debug build, emulation, a busy machine.
pub const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a guest may take to boot, on the same machine.
pub const BOOT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a notification may take to arrive.
pub const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A pod in which no launcher runs yet. A test can add hooks and images to it.
#[derive(Debug)]
pub struct PreparedPod {
    /// The pod.
    pub pod: Pod,
    /// The virt-handler of the launcher.
    pub handler: VirtHandler,
}

impl PreparedPod {
    /// A pod with the guest's kernel in it.
    pub fn create(user: LauncherUser) -> Result<PreparedPod> {
        let guest = Guest::prepare()?;
        let pod = Pod::create(user)?;
        guest.install_kernel_boot(&pod.path("/run/kubevirt/container-disks"))?;
        let handler = VirtHandler::listen(&pod.share_dir())?;
        Ok(PreparedPod { pod, handler })
    }

    /// Starts monitor and launcher for `vmi` and waits for the launcher's ready socket.
    pub async fn start(self, vmi: &Vmi, extra: &[&str]) -> Result<LauncherFixture> {
        self.start_within(vmi, extra, READY_TIMEOUT).await
    }

    /// As [`PreparedPod::start`], with another deadline.
    pub async fn start_within(
        mut self,
        vmi: &Vmi,
        extra: &[&str],
        ready: Duration,
    ) -> Result<LauncherFixture> {
        self.pod.start(vmi, extra)?;
        self.wait_until_ready_within(ready).await
    }

    /// Waits for the launcher's ready socket. Fails at once if the launcher exits.
    pub async fn wait_until_ready(self) -> Result<LauncherFixture> {
        self.wait_until_ready_within(READY_TIMEOUT).await
    }

    async fn wait_until_ready_within(mut self, ready: Duration) -> Result<LauncherFixture> {
        let commands = tokio::select! {
            commands = self.handler.commands(ready) => commands,
            status = self.pod.wait_for_exit(ready * 2) => Err(anyhow!("the launcher ended before it was ready: {}", status?)),
        };
        match commands {
            Ok(commands) => Ok(LauncherFixture {
                pod: self.pod,
                handler: self.handler,
                commands,
            }),
            Err(error) => Err(error.context(format!("the pod's log:\n{}", self.pod.log()))),
        }
    }
}

/// A pod with a launcher that is ready.
#[derive(Debug)]
pub struct LauncherFixture {
    /// The pod.
    pub pod: Pod,
    /// The virt-handler of the launcher.
    pub handler: VirtHandler,
    /// The client of the launcher.
    pub commands: Commands,
}

impl LauncherFixture {
    /// Creates a pod and starts the launcher in it.
    pub async fn start(user: LauncherUser, vmi: &Vmi) -> Result<LauncherFixture> {
        PreparedPod::create(user)?.start(vmi, &[]).await
    }

    /// Creates `vmi` in the cluster, so that virt-handler starts it, and waits until it runs.
    pub async fn boot(&self, vmi: &Vmi) -> Result<()> {
        self.handler.create(vmi).await;
        self.handler.wait_for_running(BOOT_TIMEOUT).await
    }

    /// Boots `vmi` with a Sync that the test sends. No controller runs, so the test must also end the VM.
    pub async fn boot_without_controller(&self, vmi: &Vmi) -> Result<()> {
        self.commands.sync(vmi).await?.accepted()?;
        self.handler
            .wait_for_state("Running/Unknown", 0, BOOT_TIMEOUT)
            .await?;
        Ok(())
    }

    /// Boots `vmi`, waits until its guest reports READY, and returns the guest's reports.
    pub async fn boot_and_read_reports(&self, vmi: &Vmi) -> Result<Vec<String>> {
        self.boot(vmi).await?;
        self.pod.console(vmi).wait_for_boots(1, BOOT_TIMEOUT).await
    }

    /// Waits until the guest agent answers. Polls slowly, since unread answers queue up in the agent's channel.
    pub async fn wait_for_agent(&self, vmi: &Vmi) -> Result<()> {
        let answered = async || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            self.commands.guest_ping(vmi, 5).await.is_ok().then_some(())
        };
        crate::wait_until("the guest agent", BOOT_TIMEOUT, answered).await
    }

    /// Waits until the launcher has exited, and returns its pod as a restarted container finds it.
    pub async fn after_exit(mut self) -> Result<PreparedPod> {
        self.pod.wait_for_exit(Duration::from_secs(30)).await?;
        Ok(PreparedPod {
            pod: self.pod,
            handler: self.handler,
        })
    }

    /// Kills `vmi`. Checks that it ends as Succeeded, and that launcher and monitor exit.
    pub async fn end_vm(self, vmi: &Vmi) -> Result<()> {
        self.end_vm_and_read_log(vmi).await.map(drop)
    }

    /// As [`LauncherFixture::end_vm`], and returns the log of the pod's programs.
    pub async fn end_vm_and_read_log(mut self, vmi: &Vmi) -> Result<String> {
        self.end_vm_and_keep_files(vmi).await?;
        Ok(self.pod.log())
    }

    /// As [`LauncherFixture::end_vm`]; the pod's directories stay until this is dropped.
    pub async fn end_vm_and_keep_files(&mut self, vmi: &Vmi) -> Result<()> {
        if self.handler.controls(vmi) {
            self.handler.delete_now();
            return self.expect_end_in_phase(Phase::Succeeded).await;
        }
        self.commands.kill(vmi).await?.accepted()?;
        self.commands.delete(vmi).await?.accepted()?;
        self.expect_exit_code(0).await
    }

    /// Waits until the VM has this phase and the pod has ended.
    pub async fn expect_end_in_phase(&mut self, phase: Phase) -> Result<()> {
        self.handler.wait_for_phase(phase, BOOT_TIMEOUT).await?;
        self.expect_exit_code(0).await
    }

    /// Waits for the pod's end, and checks its exit code and what virt-handler did until then.
    pub async fn expect_exit_code(&mut self, code: i32) -> Result<()> {
        let status = self.pod.wait_for_exit(Duration::from_secs(30)).await?;
        self.handler.check()?;
        anyhow::ensure!(
            status.code() == Some(code),
            "the pod ended with {status}, not {code}; its log:\n{}",
            self.pod.log()
        );
        Ok(())
    }
}
