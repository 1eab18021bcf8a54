//! virt-handler's controller for one VM. It decides from the VMI and the launcher's last notification which command
//! to send, by the rules of KubeVirt v1.9.
//!
//! ```text
//! notifications ─▶ informer ─▶ domains ┐
//! user, own status writes ─▶ API server ┴▶ work queue ─▶ reconcile: rules ─▶ calls ─▶ status
//! ```
//!
//! The parts of virt-handler that need a node are missing: mounts, cgroups, networks, migrations, hotplug.

mod calls_with_deadline;
mod decision_rules;
#[cfg(test)]
mod decision_rules_tests;
mod domain_informer;
mod grace_period;
mod in_memory_api_server;
mod launcher_client;
mod notified_domain;
mod reconcile;
#[cfg(test)]
mod stale_domains_and_migrations_tests;
mod step_log;
mod steps_and_violations;
mod work_queue;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub use decision_rules::{
    Decision, LauncherState, Phase, VmiFacts, decide, is_early_delete, next_phase,
};
pub use notified_domain::{DomainGrace, NotifiedDomain};
pub(super) use step_log::Steps;
pub use steps_and_violations::{Step, StepEntry};

use domain_informer::DomainCache;
use in_memory_api_server::ApiServer;
use launcher_client::LauncherClient;
use step_log::StepLog;
use work_queue::WorkQueue;

use super::notification_services::DomainEventReceiver;
use super::notify_pipe::NotifyPipe;
use crate::vmi_builder::Vmi;

/// Settings that differ between clusters.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The delay between a write of virt-handler and its watch event. Zero is the hardest case for a launcher that has
    /// not sent every notification yet, since virt-handler then reconciles again at once.
    pub api_delay: Duration,
    /// The interval at which virt-handler queries the launcher's domain.
    pub resync: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            api_delay: Duration::ZERO,
            resync: Duration::from_secs(300),
        }
    }
}

/// The controller and its VMI.
#[derive(Debug)]
pub(super) struct VmController {
    vmi: Vmi,
    settings: Settings,
    queue: Arc<WorkQueue>,
    api_server: ApiServer,
    domains: DomainCache,
    launcher: LauncherClient,
    step_log: StepLog,
    event_receiver: DomainEventReceiver,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl VmController {
    pub(super) fn new(
        vmi: &Vmi,
        settings: Settings,
        share_dir: &Path,
        pipe: Arc<NotifyPipe>,
        event_receiver: DomainEventReceiver,
        begin: Instant,
        steps: Steps,
    ) -> Arc<VmController> {
        let queue = Arc::new(WorkQueue::default());
        Arc::new(VmController {
            vmi: vmi.clone(),
            settings,
            api_server: ApiServer::new(vmi, queue.clone(), settings.api_delay),
            queue,
            domains: DomainCache::default(),
            launcher: LauncherClient::new(share_dir, pipe),
            step_log: StepLog::new(begin, steps),
            event_receiver,
            tasks: Mutex::default(),
        })
    }

    /// Starts the controller as the start of virt-handler's process does: lists, then watches and works.
    pub(super) async fn start(self: &Arc<Self>) {
        let (sender, events) = mpsc::unbounded_channel();
        *self
            .event_receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(sender);
        self.list().await;
        let (informer, worker) = (self.clone(), self.clone());
        let tasks = vec![
            tokio::spawn(async move { informer.watch(events).await }),
            tokio::spawn(async move { worker.work().await }),
        ];
        *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
    }

    /// Stops the controller as the end of virt-handler's process does: calls are cancelled, connections are closed, and
    /// caches are lost.
    pub(super) async fn stop(&self) {
        self.step_log.add(Step::Stopped);
        *self
            .event_receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
        self.queue.done();
        self.launcher.reset_after_process_exit();
    }

    /// Aborts the tasks, which hold references to `self`, without waiting for them.
    pub(super) fn abort(&self) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(JoinHandle::abort);
    }

    /// Sets the deletion timestamp, and the grace period if one is given.
    pub(super) fn delete(&self, grace_period: Option<u32>) {
        self.api_server.change(|mut object| {
            object.deletion = Some(jiff::Timestamp::now().to_string());
            if let Some(seconds) = grace_period {
                object.vmi = object.vmi.grace_period(seconds);
            }
            Some(object)
        });
    }

    /// Removes the VMI from the cluster.
    pub(super) fn remove(&self) {
        self.api_server.change(|_| None);
    }

    pub(super) fn phase(&self) -> Option<Phase> {
        self.api_server.current().map(|object| object.status.phase)
    }

    pub(super) fn uid(&self) -> &str {
        self.vmi.uid()
    }
}
