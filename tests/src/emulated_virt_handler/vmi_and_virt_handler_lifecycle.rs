//! The lifecycle of a VMI that virt-handler controls: the user's actions, restarts of virt-handler, and waits for
//! phases.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::watch;

use super::VirtHandler;
use super::controller::{Phase, Settings, Step, StepEntry, VmController};
use crate::vmi_builder::Vmi;

impl VirtHandler {
    /// Creates `vmi` in phase Scheduled, and starts a controller for it.
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
            self.event_receiver.clone(),
            self.begin,
            self.steps.clone(),
        );
        let previous = self.set_controller(controller.clone());
        if let Some(previous) = previous {
            previous.stop().await;
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

    /// `virtctl stop --force --grace-period 0`: virt-handler kills the VM.
    pub fn delete_now(&self) {
        if let Some(vm) = self.controller() {
            vm.delete(Some(0));
        }
    }

    /// Removes the VMI from the cluster, as the API server does when it has no finalizer left.
    pub fn remove(&self) {
        if let Some(vm) = self.controller() {
            vm.remove();
        }
    }

    /// Ends virt-handler's process.
    pub async fn stop(&self) {
        match self.controller() {
            Some(vm) => vm.stop().await,
            None => self.pipe.close_all(),
        }
    }

    /// Starts virt-handler's process again after [`VirtHandler::stop`].
    pub async fn start(&self) {
        match self.controller() {
            Some(vm) => vm.start().await,
            // Binding succeeded at the same path before.
            None => drop(self.pipe.open()),
        }
    }

    /// Ends virt-handler's process and starts another.
    pub async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// The VMI's phase, or `None` if there is no VMI.
    pub fn phase(&self) -> Option<Phase> {
        self.controller()?.phase()
    }

    /// The steps of virt-handler so far: decisions and calls.
    pub fn steps(&self) -> Vec<StepEntry> {
        self.steps.borrow().clone()
    }

    /// A channel with all steps.
    pub fn step_channel(&self) -> watch::Receiver<Vec<StepEntry>> {
        self.steps.subscribe()
    }

    /// Waits for a phase. Fails at once if the VMI has another final phase.
    pub async fn wait_for_phase(&self, phase: Phase, deadline: Duration) -> Result<()> {
        let begin = Instant::now();
        loop {
            let now = self.phase();
            if now == Some(phase) {
                return Ok(());
            }
            let has_failed = now.is_none_or(Phase::is_final);
            if has_failed || begin.elapsed() > deadline {
                let waited = begin.elapsed();
                bail!(
                    "the VMI's phase is {now:?}, not {phase:?}, after {waited:?}; what happened:\n{}",
                    self.history()
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the VM runs. Fails at once if the launcher refuses a Sync.
    pub async fn wait_for_running(&self, deadline: Duration) -> Result<()> {
        tokio::select! {
            running = self.wait_for_phase(Phase::Running, deadline) => running,
            refused = self.wait_for_refusal() => bail!("the launcher refused the VMI: {}", refused?),
        }
    }

    /// Waits until the launcher refuses a Sync, and returns its reason.
    pub async fn wait_for_refusal(&self) -> Result<String> {
        let mut steps = self.step_channel();
        let refusal = |entry: &StepEntry| match &entry.step {
            Step::Called {
                method: "SyncVirtualMachine",
                error: Some(error),
                ..
            } if error.starts_with("refused") => Some(error.clone()),
            _ => None,
        };
        let refused = steps.wait_for(|steps| steps.iter().any(|entry| refusal(entry).is_some()));
        let steps = refused.await?.clone();
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
