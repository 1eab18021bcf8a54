//! Applies the faults of a migration row.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Signal, kill_process};
use tests::migration::migrating;
use tests::pod::Process;

use super::migration_options::migration_options;
use super::migration_row::{Fault, MigrationPhase, Side, TargetProcess};
use super::migration_row_run::MigrationRowRun;

/// The time from virt-handler's end to its restart.
const VIRT_HANDLER_DOWNTIME: Duration = Duration::from_secs(2);

impl MigrationRowRun {
    /// Applies the faults in their order.
    pub(super) async fn apply(&mut self, faults: &[Fault]) -> Result<()> {
        for fault in faults {
            self.apply_one(*fault)
                .await
                .with_context(|| format!("{fault:?}"))?;
        }
        Ok(())
    }

    async fn apply_one(&mut self, fault: Fault) -> Result<()> {
        let (uid, next, vmi) = (self.uid(), self.next_uid(), self.vmi()?.clone());
        match fault {
            Fault::Kill(side, process) => self.signal(side, process, Signal::KILL),
            Fault::Terminate(side) => self.signal(side, TargetProcess::Launcher, Signal::TERM),
            Fault::Hang(side, process, millis) => {
                self.signal(side, process, Signal::STOP)?;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                self.signal(side, process, Signal::CONT)
            }
            Fault::CutProxies => {
                self.proxies.take();
                Ok(())
            }
            Fault::RestartVirtHandler(side) => {
                self.proxies.take();
                let pods = self.pods()?;
                let handler = match side {
                    Side::Source => &pods.source.handler,
                    Side::Target => &pods.target.handler,
                };
                handler.stop().await;
                tokio::time::sleep(VIRT_HANDLER_DOWNTIME).await;
                handler.start().await;
                Ok(())
            }
            Fault::RepeatUid => self
                .request(&uid, migration_options(MigrationPhase::Ended))
                .await?
                .accepted(),
            Fault::OtherUid => {
                let answer = self
                    .request(&next, migration_options(MigrationPhase::Ended))
                    .await?;
                ensure!(!answer.success, "another migration was accepted");
                Ok(())
            }
            Fault::Cancel => self
                .pods()?
                .cancel(&migrating(&vmi, &uid))
                .await?
                .accepted(),
            Fault::CleanUp => {
                let answer = self.pods()?.clean_up_target(&migrating(&vmi, &uid)).await?;
                ensure!(answer.success, "{}", answer.message);
                Ok(())
            }
        }
    }

    fn signal(&mut self, side: Side, target_process: TargetProcess, signal: Signal) -> Result<()> {
        let pod = &match side {
            Side::Source => &self.pods()?.source,
            Side::Target => &self.pods()?.target,
        }
        .pod;
        let process = match target_process {
            TargetProcess::Pod => return pod.signal(signal),
            TargetProcess::Qemu => find_guest_qemu(&pod.processes()),
            TargetProcess::Daemon => pod.daemon(),
            TargetProcess::Launcher => pod.process("virt-launcher"),
        };
        let process = process.context("the process does not run")?;
        Ok(kill_process(process.pid, signal)?)
    }
}

/// The QEMU process of the guest, not a QEMU that libvirt starts to probe its capabilities.
pub(crate) fn find_guest_qemu(processes: &[Process]) -> Option<Process> {
    let is_guest = |process: &&Process| {
        let path = format!("/proc/{}/cmdline", process.pid.as_raw_nonzero());
        process.name == "qemu-system-x86"
            && fs::read(path).is_ok_and(|line| line.windows(6).any(|part| part == b"guest="))
    };
    processes.iter().find(is_guest).cloned()
}
