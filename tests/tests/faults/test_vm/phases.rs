//! Brings the launcher and the VM to a phase of the fault matrix.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, READY_TIMEOUT};

use super::TestVm;
use crate::fault_row::{Phase, Program, Setup};
use crate::fault_row_calls::Call;

impl TestVm {
    /// Brings a launcher that was not started yet, or whose guest is running, to `phase`.
    pub(crate) async fn reach(&mut self, phase: Phase) -> Result<()> {
        if self.commands.is_none() {
            self.start(&[])?;
            if let Phase::Spawned(millis) = phase {
                self.wait_for_launcher_process().await?;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                return Ok(());
            }
            self.wait_until_ready().await?;
            match phase {
                Phase::Ready => return Ok(()),
                Phase::Defined => {
                    self.send(Call::Sync)?;
                    return self.wait_for_state("Shutoff/", 0, EVENT_TIMEOUT).await;
                }
                Phase::Starting => {
                    self.send(Call::Sync)?;
                    let qemu = async || self.process(Program::Qemu);
                    return tests::wait_until("QEMU", EVENT_TIMEOUT, qemu)
                        .await
                        .map(drop);
                }
                _ => self.boot().await?,
            }
        }
        match phase {
            Phase::Running => Ok(()),
            Phase::Paused => {
                let first_event_index = self.events().len();
                self.ask(Call::Pause).await?.accepted()?;
                self.wait_for_state("Paused/User", first_event_index, EVENT_TIMEOUT)
                    .await
            }
            Phase::ShuttingDown => self.ask(Call::Shutdown).await?.accepted(),
            Phase::Off => {
                self.type_line("poweroff -f").await?;
                self.wait_for_state("Shutoff/", 0, BOOT_TIMEOUT).await
            }
            other => bail!("a running VM cannot be taken to {other:?}"),
        }
    }

    /// Waits until the launcher's process exists and can receive a signal.
    async fn wait_for_launcher_process(&self) -> Result<()> {
        let begin = Instant::now();
        while self.process(Program::Launcher).is_none() {
            ensure!(
                begin.elapsed() < READY_TIMEOUT,
                "the monitor started no launcher"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    async fn boot(&mut self) -> Result<()> {
        self.ask(Call::Sync).await?.accepted()?;
        self.wait_for_state("Running/", 0, BOOT_TIMEOUT).await?;
        if self.setup != Setup::IgnoresPowerButton {
            self.pod
                .console(&self.vmi)
                .wait_for_boots(1, BOOT_TIMEOUT)
                .await?;
            self.wait_for_guest_agent().await?;
        }
        Ok(())
    }

    /// Waits until the guest agent answers. libvirt handles events of QEMU one at a time: while a backup runs, the
    /// event of the agent's connection waits for 30 s, all events behind it wait too, and then it is lost. The first
    /// command to the agent waits for virtlogd.
    async fn wait_for_guest_agent(&self) -> Result<()> {
        let ping_agent = async || {
            let answer = self.ask(Call::GuestPing).await;
            answer
                .is_ok_and(|answer| answer.accepted().is_ok())
                .then_some(())
        };
        tests::wait_until("the guest agent", BOOT_TIMEOUT, ping_agent).await
    }
}
