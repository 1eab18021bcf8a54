//! virt-handler's controller for one VM. It decides from the VMI and the launcher's last notification which command
//! to send, by the rules of KubeVirt v1.9.
//!
//! ```text
//! notifications ─▶ informer ─▶ domains ┐
//! user, own status writes ─▶ cluster ──┴▶ work queue ─▶ reconcile: rules ─▶ calls ─▶ status
//! ```
//!
//! Everything that needs a node is left out: mounts, cgroups, networks, migrations, hotplug.

mod decision_rules;
#[cfg(test)]
mod decision_rules_tests;
mod grace_period;
mod in_memory_cluster;
mod informer;
mod launcher_clients;
mod notified_domain;
mod reconcile;
mod step_log;
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
pub use step_log::{Step, StepEntry};

use in_memory_cluster::Cluster;
use informer::Domains;
use launcher_clients::LauncherClients;
use step_log::StepLog;
use work_queue::WorkQueue;

use super::notification_services::Watcher;
use super::notify_pipe::NotifyPipe;
use crate::vmi_builder::Vmi;

/// Settings that differ between clusters.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The delay between virt-handler's own writes and their watch event. Zero is the hardest case for a launcher
    /// that has not sent every notification yet, since virt-handler reconciles again at once.
    pub api_delay: Duration,
    /// How often virt-handler asks the launcher for its domain.
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
    cluster: Cluster,
    domains: Domains,
    clients: LauncherClients,
    step_log: StepLog,
    watcher: Watcher,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl VmController {
    pub(super) fn new(
        vmi: &Vmi,
        settings: Settings,
        share_dir: &Path,
        pipe: Arc<NotifyPipe>,
        watcher: Watcher,
        begin: Instant,
        steps: Steps,
    ) -> Arc<VmController> {
        let queue = Arc::new(WorkQueue::default());
        Arc::new(VmController {
            vmi: vmi.clone(),
            settings,
            cluster: Cluster::new(vmi, queue.clone(), settings.api_delay),
            queue,
            domains: Domains::default(),
            clients: LauncherClients::new(share_dir, pipe),
            step_log: StepLog::new(begin, steps),
            watcher,
            tasks: Mutex::default(),
        })
    }

    /// Does what a virt-handler does at its start.
    pub(super) async fn start(self: &Arc<Self>) {
        let (sender, events) = mpsc::unbounded_channel();
        *self.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        self.list().await;
        let (watching, working) = (self.clone(), self.clone());
        let tasks = vec![
            tokio::spawn(async move { watching.watch(events).await }),
            tokio::spawn(async move { working.work().await }),
        ];
        *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
    }

    /// Does what the end of virt-handler's process does: calls are cancelled, connections close, caches are lost.
    pub(super) async fn stop(&self) {
        self.step_log.add(Step::Stopped);
        *self.watcher.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
        self.queue.done();
        self.clients.process_ended();
    }

    /// Aborts the tasks, which own references to `self`, without waiting for them.
    pub(super) fn abort(&self) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(JoinHandle::abort);
    }

    /// Sets the deletion timestamp, and the grace period if one is given.
    pub(super) fn delete(&self, grace_period: Option<u32>) {
        self.cluster.change(|mut object| {
            object.deletion = Some(jiff::Timestamp::now().to_string());
            if let Some(seconds) = grace_period {
                object.vmi = object.vmi.grace_period(seconds);
            }
            Some(object)
        });
    }

    /// Takes the VMI's object out of the cluster.
    pub(super) fn remove(&self) {
        self.cluster.change(|_| None);
    }

    pub(super) fn phase(&self) -> Option<Phase> {
        self.cluster.current().map(|object| object.status.phase)
    }

    pub(super) fn uid(&self) -> &str {
        self.vmi.uid()
    }
}
