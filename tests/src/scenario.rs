//! What most end-to-end tests begin with: a pod whose launcher is ready, with its virt-handler.

use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::guest::Guest;
use crate::pod::{Pod, User};
use crate::virt_handler::{Commands, VirtHandler};
use crate::vmi::Vmi;

/// How long a launcher may take until it is ready: daemons under emulation, a debug build and a busy machine.
pub const READY: Duration = Duration::from_secs(30);
/// How long a guest may take to boot, likewise.
pub const BOOT: Duration = Duration::from_secs(60);
/// How long an event may take to arrive.
pub const EVENT: Duration = Duration::from_secs(10);

/// A pod in which no launcher runs yet; hooks and images can be put into it.
#[derive(Debug)]
pub struct Stage {
    /// The pod.
    pub pod: Pod,
    /// Its virt-handler.
    pub handler: VirtHandler,
}

impl Stage {
    /// A pod with the guest's kernel in it.
    pub fn set(user: User) -> Result<Stage> {
        let guest = Guest::prepare()?;
        let pod = Pod::create(user)?;
        guest.install_kernel_boot(&pod.path("/run/kubevirt/container-disks"))?;
        let handler = VirtHandler::listen(&pod.share_dir())?;
        Ok(Stage { pod, handler })
    }

    /// Starts monitor and launcher for `vmi` and waits for the launcher's ready socket.
    pub async fn start(self, vmi: &Vmi, extra: &[&str]) -> Result<Scene> {
        self.start_within(vmi, extra, READY).await
    }

    /// As [`Stage::start`], for a launcher that has more to do until it is ready.
    pub async fn start_within(
        mut self,
        vmi: &Vmi,
        extra: &[&str],
        ready: Duration,
    ) -> Result<Scene> {
        self.pod.start(vmi, extra)?;
        self.ready_within(ready).await
    }

    /// Waits for the launcher's ready socket; a launcher that ends instead is an error at once.
    pub async fn ready(self) -> Result<Scene> {
        self.ready_within(READY).await
    }

    async fn ready_within(mut self, ready: Duration) -> Result<Scene> {
        let commands = tokio::select! {
            commands = self.handler.commands(ready) => commands,
            status = self.pod.ended(ready * 2) => Err(anyhow!("the launcher ended before it was ready: {}", status?)),
        };
        match commands {
            Ok(commands) => Ok(Scene {
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
pub struct Scene {
    /// The pod.
    pub pod: Pod,
    /// Its virt-handler.
    pub handler: VirtHandler,
    /// The client of its launcher.
    pub commands: Commands,
}

impl Scene {
    /// Sets a stage and starts it.
    pub async fn open(user: User, vmi: &Vmi) -> Result<Scene> {
        Stage::set(user)?.start(vmi, &[]).await
    }

    /// Syncs `vmi` and waits until it runs.
    pub async fn boot(&self, vmi: &Vmi) -> Result<()> {
        self.commands.sync(vmi).await?.ok()?;
        self.handler
            .wait_for_state("Running/Unknown", 0, BOOT)
            .await?;
        Ok(())
    }

    /// Syncs `vmi` and waits until its guest says that it is up; gives what it told.
    pub async fn boot_to_ready(&self, vmi: &Vmi) -> Result<Vec<String>> {
        self.boot(vmi).await?;
        self.pod.console(vmi).ready(1, BOOT).await
    }

    /// Waits until the guest agent answers, without asking so often that the answers pile up.
    pub async fn agent(&self, vmi: &Vmi) -> Result<()> {
        let answered = async || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            self.commands.guest_ping(vmi, 5).await.is_ok().then_some(())
        };
        crate::until("the guest agent", BOOT, answered).await
    }

    /// The same pod after its end, as a container that is started again finds it.
    pub async fn again(mut self) -> Result<Stage> {
        self.pod.ended(Duration::from_secs(30)).await?;
        Ok(Stage {
            pod: self.pod,
            handler: self.handler,
        })
    }

    /// Kills and deletes `vmi`, and checks that launcher and monitor end well.
    pub async fn close(self, vmi: &Vmi) -> Result<()> {
        self.close_with_log(vmi).await.map(drop)
    }

    /// As [`Scene::close`], and gives all that the pod's programs said.
    pub async fn close_with_log(mut self, vmi: &Vmi) -> Result<String> {
        self.commands.kill(vmi).await?.ok()?;
        self.commands.delete(vmi).await?.ok()?;
        self.ends_with(0).await?;
        Ok(self.pod.log())
    }

    /// Waits for the pod's end and checks its exit code.
    pub async fn ends_with(&mut self, code: i32) -> Result<()> {
        let status = self.pod.ended(Duration::from_secs(30)).await?;
        anyhow::ensure!(
            status.code() == Some(code),
            "the pod ended with {status}, not {code}; its log:\n{}",
            self.pod.log()
        );
        Ok(())
    }
}
