//! The lifecycle of a VMI that virt-handler controls: what a user does to it, and waits for its phases.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::watch;

use super::VirtHandler;
use super::controller::{Phase, Settings, Step, StepEntry, VmController};
use crate::vmi_builder::Vmi;

impl VirtHandler {
    /// Creates `vmi` in phase Scheduled. From now on the controller runs.
    pub async fn create(&self, vmi: &Vmi) {
        self.create_with(vmi, Settings::default()).await;
    }

    /// As [`VirtHandler::create`], with other cluster settings.
    pub async fn create_with(&self, vmi: &Vmi, settings: Settings) {
        let controller = VmController::new(
            vmi,
            settings,
            &self.share_dir,
            self.pipe.clone(),
            self.watcher.clone(),
            self.begin,
            self.steps.clone(),
        );
        let before = self.set_controller(controller.clone());
        if let Some(before) = before {
            before.stop().await;
        }
        controller.start().await;
    }

    fn set_controller(&self, controller: Arc<VmController>) -> Option<Arc<VmController>> {
        let mut vm = self.vm.lock().unwrap_or_else(PoisonError::into_inner);
        vm.replace(controller)
    }

    fn controller(&self) -> Option<Arc<VmController>> {
        self.vm
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether the controller is responsible for this VMI.
    pub fn controls(&self, vmi: &Vmi) -> bool {
        self.controller().is_some_and(|vm| vm.uid() == vmi.uid())
    }

    /// `kubectl delete vmi`: sets the deletion timestamp.
    pub fn delete(&self) {
        if let Some(vm) = self.controller() {
            vm.delete(None);
        }
    }

    /// `virtctl stop --force --grace-period 0`: the VM is killed.
    pub fn delete_now(&self) {
        if let Some(vm) = self.controller() {
            vm.delete(Some(0));
        }
    }

    /// Removes the VMI's object from the cluster, as the API server does once nothing holds it any more.
    pub fn remove(&self) {
        if let Some(vm) = self.controller() {
            vm.remove();
        }
    }

    /// Ends virt-handler's process.
    pub async fn stop(&self) {
        match self.controller() {
            Some(vm) => vm.stop().await,
            None => self.pipe.cut(),
        }
    }

    /// Starts virt-handler's process again.
    pub async fn start(&self) {
        match self.controller() {
            Some(vm) => vm.start().await,
            // It can be bound where it was bound before.
            None => drop(self.pipe.open()),
        }
    }

    /// Ends virt-handler's process and starts another.
    pub async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// The VMI's phase; none without a VMI.
    pub fn phase(&self) -> Option<Phase> {
        self.controller()?.phase()
    }

    /// The steps of virt-handler so far: decisions and calls.
    pub fn steps(&self) -> Vec<StepEntry> {
        self.steps.borrow().clone()
    }

    /// A channel with the same.
    pub fn step_feed(&self) -> watch::Receiver<Vec<StepEntry>> {
        self.steps.subscribe()
    }

    /// Waits for a phase. Another final phase is an error at once.
    pub async fn wait_for_phase(&self, phase: Phase, deadline: Duration) -> Result<()> {
        let begin = Instant::now();
        loop {
            let now = self.phase();
            if now == Some(phase) {
                return Ok(());
            }
            let is_over = now.is_none_or(Phase::is_final);
            if is_over || begin.elapsed() > deadline {
                let waited = begin.elapsed();
                bail!(
                    "the VMI's phase is {now:?}, not {phase:?}, after {waited:?}; what happened:\n{}",
                    self.history()
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the VM runs. A Sync that the launcher refuses is an error at once.
    pub async fn wait_for_running(&self, deadline: Duration) -> Result<()> {
        tokio::select! {
            running = self.wait_for_phase(Phase::Running, deadline) => running,
            refused = self.wait_for_refusal() => bail!("the launcher refused the VMI: {}", refused?),
        }
    }

    /// Waits until the launcher refuses a Sync, and returns its reason.
    pub async fn wait_for_refusal(&self) -> Result<String> {
        let mut steps = self.step_feed();
        let refusal = |entry: &StepEntry| match &entry.step {
            Step::Called {
                method: "SyncVirtualMachine",
                error: Some(error),
                ..
            } if error.starts_with("refused") => Some(error.clone()),
            _ => None,
        };
        let found = steps.wait_for(|steps| steps.iter().any(|entry| refusal(entry).is_some()));
        let steps = found.await?.clone();
        steps.iter().find_map(refusal).context("a refusal")
    }

    /// Fails if virt-handler took a step that a correct launcher never causes.
    pub fn check(&self) -> Result<()> {
        let steps = self.steps();
        let violations = steps.iter().filter_map(|entry| entry.step.violation());
        let violations: Vec<String> = violations.collect();
        if !violations.is_empty() {
            bail!(
                "{}; what happened:\n{}",
                violations.join("; "),
                self.history()
            );
        }
        Ok(())
    }
}
