//! The run of one migration row up to its phase, and its faults.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::emulated_virt_handler::{Answer, Event};
use tests::launcher_fixture::BOOT_TIMEOUT;
use tests::migration::{MIGRATION_TIMEOUT, MigrationPods, Proxies, has_ended};
use tests::vmi_builder::Vmi;

use super::migration_options::migration_options;
use super::migration_row::{MigrationPhase, MigrationRow, Refusal, Target};
use super::row_vmi_and_pods::{self, RunningVm, in_migration, start_target};

/// Bytes per second through the proxies in post-copy: some seconds for the memory of the small guest.
const POST_COPY_PROXY_LIMIT: u64 = 10 << 20;
/// The time after the request at which the hooks of PreMigrationSource run.
const HOOK_CALL_DELAY: Duration = Duration::from_millis(300);

/// The state of a row.
pub(crate) struct MigrationRowRun {
    /// The number of the row in this run of the matrix.
    number: u32,
    pub(super) pods: Option<MigrationPods>,
    vmi: Option<Vmi>,
    /// The number of the target's simulated host.
    pub(super) host: u32,
    pub(super) proxies: Option<Proxies>,
    /// The number of notifications that the source and the target had sent before this row.
    pub(super) first_event_index: [usize; 2],
    /// Whether SyncMigrationTarget failed, as the row expects.
    pub(crate) target_refused: bool,
    /// Whether the launcher accepted the migration.
    pub(crate) requested: bool,
    /// The source's FailureReason.
    pub(crate) reason: String,
    /// The states that were reported before the second migration.
    pub(super) reported_states: Option<String>,
}

impl MigrationRowRun {
    pub(crate) fn new(number: u32) -> MigrationRowRun {
        MigrationRowRun {
            number,
            pods: None,
            vmi: None,
            host: 0,
            proxies: None,
            first_event_index: [0, 0],
            target_refused: false,
            requested: false,
            reason: String::new(),
            reported_states: None,
        }
    }

    /// Boots the VM unless `vm` fits the row, and starts the target's launcher.
    pub(crate) async fn prepare(&mut self, vm: Option<RunningVm>, target: Target) -> Result<()> {
        let required = row_vmi_and_pods::create_vmi(target);
        let fits = |vm: &RunningVm| {
            row_vmi_and_pods::fixture_annotations(&vm.vmi)
                == row_vmi_and_pods::fixture_annotations(&required)
        };
        let vm = match vm.filter(fits) {
            Some(vm) => vm,
            None => row_vmi_and_pods::boot_source(target, self.number * 100 + 1).await?,
        };
        let host = match target {
            Target::SameHost => vm.host,
            _ => vm.host + 1,
        };
        let launcher = start_target(&vm.vmi, host, target).await?;
        self.first_event_index = [vm.launcher.handler.events().len(), 0];
        (self.vmi, self.host) = (Some(vm.vmi), host);
        self.pods = Some(MigrationPods {
            source: vm.launcher,
            target: launcher,
        });
        Ok(())
    }

    pub(crate) fn pods(&mut self) -> Result<&mut MigrationPods> {
        self.pods.as_mut().context("no pods run")
    }

    pub(crate) fn vmi(&self) -> Result<&Vmi> {
        self.vmi.as_ref().context("no VM runs")
    }

    pub(crate) fn uid(&self) -> String {
        format!("4d4d0000-0000-4000-8000-{:012}", self.number * 10)
    }

    /// The UID of the second migration, and of one that the launcher refuses.
    pub(super) fn next_uid(&self) -> String {
        format!("4d4d0000-0000-4000-8000-{:012}", self.number * 10 + 1)
    }

    /// Migrates up to the row's phase, and applies its faults.
    pub(crate) async fn run_until_fault(&mut self, row: &MigrationRow) -> Result<()> {
        let (uid, vmi) = (self.uid(), self.vmi()?.clone());
        let pods = self.pods()?;
        let answer = pods.sync_target(&in_migration(&vmi, &uid)).await?;
        if let Some(Refusal::Preparation(reason)) = row.refusal {
            let is_expected = !answer.success && answer.message.contains(reason);
            ensure!(is_expected, "SyncMigrationTarget: {answer:?}");
            self.target_refused = true;
            return Ok(());
        }
        ensure!(answer.success, "SyncMigrationTarget: {}", answer.message);
        if row.target != Target::NoProxies {
            let limit = (row.phase == MigrationPhase::PostCopy).then_some(POST_COPY_PROXY_LIMIT);
            let (source, target) = (&pods.source.pod, &pods.target.pod);
            let proxies = Proxies::start_limited(source, target, vmi.uid(), limit)?;
            self.proxies = Some(proxies);
        }
        if row.phase == MigrationPhase::Prepared {
            self.apply(row.faults).await?;
            let mut options = migration_options(row.phase);
            if row.target == Target::NoUserfaultfd {
                options["AllowPostCopy"] = json!(true);
            }
            self.request(&uid, options).await?.accepted()?;
            self.requested = true;
            return Ok(());
        }
        self.request(&uid, migration_options(row.phase))
            .await?
            .accepted()?;
        self.requested = true;
        self.wait_for_phase(row.phase)
            .await
            .with_context(|| format!("reaching {:?}", row.phase))?;
        self.apply(row.faults).await
    }

    async fn wait_for_phase(&mut self, phase: MigrationPhase) -> Result<()> {
        let uid = self.uid();
        let first_event_index = self.first_event_index;
        let MigrationPods { source, target } = self.pods()?;
        let state = match phase {
            MigrationPhase::Prepared | MigrationPhase::Requested => return Ok(()),
            MigrationPhase::Hooks => {
                tokio::time::sleep(HOOK_CALL_DELAY).await;
                return Ok(());
            }
            MigrationPhase::Switchover => {
                let handler = &source.handler;
                let paused =
                    handler.wait_for_state("Paused/Migration", first_event_index[0], BOOT_TIMEOUT);
                return paused.await.map(drop);
            }
            MigrationPhase::PostCopy => {
                let handler = &target.handler;
                let is_running = |event: &Event| event.state().starts_with("Running/");
                let running =
                    handler.wait_for("the guest's run on the target", 0, BOOT_TIMEOUT, is_running);
                return running.await.map(drop);
            }
            MigrationPhase::Transfer | MigrationPhase::ShortTransfer => "Paused/Migration",
            MigrationPhase::Resumed => "Running/Unknown",
            MigrationPhase::Ended => {
                let ended = |event: &Event| has_ended(event, &uid);
                let handler = &source.handler;
                let end = handler.wait_for(
                    "the migration's end",
                    first_event_index[0],
                    MIGRATION_TIMEOUT,
                    ended,
                );
                return end.await.map(drop);
            }
        };
        let reported = target.handler.wait_for_state(state, 0, BOOT_TIMEOUT);
        reported.await.map(drop)
    }

    pub(super) async fn request(&mut self, uid: &str, options: Value) -> Result<Answer> {
        let vmi = in_migration(self.vmi()?, uid);
        self.pods()?.migrate(&vmi, &options).await
    }
}
