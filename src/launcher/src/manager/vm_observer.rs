//! The task that watches the VM: it receives events, reads the domain, updates the phase and notifies virt-handler.
//! It never changes the domain.

mod domain_notifications;
mod observer_history;
mod observer_snapshots;
mod resync_after_lost_events;
mod resync_backoff;
mod watch_channel_updates;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use kubevirt_api::domain_state::{LifeCycle, reason};
use libvirt::{Detail, Event, LifecycleEvent};
use observer_history::ObserverHistory;
use tokio::sync::{Mutex, watch};

use super::Identity;
use super::alert_reporter::AlertReporter;
use super::incoming_migration_stage::IncomingMigrationStage;
use super::kubevirt_metadata::MetadataStore;
use super::start_notification_acceptance::StartNotification;
use super::vm_end_reason::EndReason;
use super::vm_phase_and_migration_role::Phase;
use crate::guest_agent::{AgentLink, GuestInfoCache};
use crate::jobs::VmEventsForJob;
use crate::libvirt_client::{Client, Presence};
use crate::notify::Notifier;
use crate::vm_event_queue::VmEventReceiver;
use crate::vm_events::VmEvent;

/// The observer: what its task depends on, and its state.
pub(super) struct Observer {
    /// The client of libvirt.
    pub client: Client,
    /// The VM to watch; events of other domains are ignored.
    pub identity: Identity,
    /// KubeVirt's metadata.
    pub metadata: Arc<MetadataStore>,
    /// Sends notifications to virt-handler.
    pub notifier: Notifier,
    /// Whether virt-handler has accepted the notification of the start.
    pub(super) start_notification: StartNotification,
    /// The ID of the command that was started last, for log lines: it most likely caused the notification.
    pub(super) last_request: Arc<AtomicU64>,
    /// Reports panics and disk errors.
    pub(super) alert_reporter: AlertReporter,
    /// What the guest agent reported.
    pub(super) guest_info: Arc<GuestInfoCache>,
    /// Whether the guest agent can be asked, for the task that polls it.
    pub(super) agent_link: watch::Sender<AgentLink>,
    /// Held while the domain is being defined, so that an incomplete definition is not read.
    pub(super) defining: Arc<Mutex<()>>,
    /// Forwards events to the running job.
    pub(super) job_events: Arc<VmEventsForJob>,
    /// The VM's phase, for other tasks.
    pub phase: watch::Sender<Phase>,
    /// The stage of a migration to this pod.
    pub(super) incoming_migration: watch::Sender<IncomingMigrationStage>,
    /// Whether the deletion of the domain is published only with libvirt's event of it.
    pub(super) deletes_domain_by_event: bool,
    /// The events to handle.
    pub(super) events: Mutex<VmEventReceiver>,
    /// State between events, which survives a restart of the task.
    pub(super) history: Mutex<ObserverHistory>,
}

impl Observer {
    /// Handles events until all senders are gone.
    pub(super) async fn run(&self) {
        let mut events = self.events.lock().await;
        let mut history = self.history.lock().await;
        if std::mem::replace(&mut history.has_run, true) {
            self.resync(&mut history).await;
        }
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = history.resync_backoff.due() => {
                    self.retry_resync(&mut history).await;
                    continue;
                }
            };
            let Some(event) = event else { return };
            if self.is_duplicate_incoming_start(&event) {
                // A resync has published this start. The event may also be the start of the source's next attempt, so
                // the job and the reason of the end observe it.
                self.job_events.observe(&event);
                history.end.observe(&event);
            } else if self.is_relevant(&event) {
                self.job_events.observe(&event);
                if let VmEvent::Libvirt(event) = &event {
                    self.alert_reporter.observe(event, &self.notifier).await;
                }
                self.look_for_out_of_memory_kills(&event, history.end).await;
                if event == VmEvent::Republish {
                    self.resync(&mut history).await;
                } else {
                    history.last_read_failed = false;
                    self.observe(&event, &mut history).await;
                    if history.last_read_failed {
                        history.resync_backoff.begin();
                    }
                }
                self.update_incoming_stage(&event);
                if event == VmEvent::StartFailed {
                    self.start_notification.end();
                }
            }
        }
    }

    /// Before the end is published, with which the launcher ends.
    async fn look_for_out_of_memory_kills(&self, event: &VmEvent, mut end: EndReason) {
        if *event == VmEvent::StartingUp {
            self.alert_reporter.observe_start().await;
        }
        end.observe(event);
        if is_end(event) && end.reason() == reason::CRASHED {
            self.alert_reporter.observe_crash(&self.notifier).await;
        }
    }

    fn is_relevant(&self, event: &VmEvent) -> bool {
        match event {
            VmEvent::Libvirt(event) => event.domain() == Some(self.identity.domain.as_str()),
            VmEvent::Metadata
            | VmEvent::BackupEnded
            | VmEvent::GuestInfo
            | VmEvent::Republish
            | VmEvent::RedefinitionBegins
            | VmEvent::RedefinitionFailed
            | VmEvent::QemuExited
            | VmEvent::QemuMissing
            | VmEvent::StartingUp
            | VmEvent::StartFailed
            | VmEvent::PowerOffRequested
            | VmEvent::Destroying
            | VmEvent::EndingAfterMigration => true,
        }
    }

    /// Whether the event is the start of an incoming migration that has been observed to begin before.
    fn is_duplicate_incoming_start(&self, event: &VmEvent) -> bool {
        self.is_relevant(event)
            && is_incoming_start(event)
            && self.incoming_migration.borrow().has_begun()
    }

    /// Handles one event: publishes the domain as it is now if the policy asks for that, and updates the shared state.
    async fn observe(&self, event: &VmEvent, history: &mut ObserverHistory) {
        history.end.observe(event);
        if is_incoming_start(event) {
            self.metadata.set_incoming_migration_start();
        }
        if *event == VmEvent::GuestInfo && !self.guest_info.is_unpublished() {
            return;
        }
        let publications = history.policy.observe(event);
        if publications.is_empty() {
            return;
        }
        tracing::debug!(?event, "domain event");
        let (starting, others): (Vec<_>, Vec<_>) = publications
            .into_iter()
            .partition(|publication| publication.starting_up);
        for publication in starting {
            self.publish_start(&publication, history);
        }
        if others.is_empty() {
            return;
        }
        let snapshot = self.snapshot_after(event, history).await;
        let Some(snapshot) = snapshot.map(|snapshot| history.end.correct(snapshot)) else {
            if *event == VmEvent::QemuExited {
                self.update_phase(Presence::Inactive);
            }
            return;
        };
        if *event == VmEvent::Republish && snapshot.status == LifeCycle::Running {
            self.job_events.observe_running_guest();
        }
        self.update_agent_link(event, &snapshot);
        let presence = snapshot.presence();
        if presence == Presence::Absent && *self.phase.borrow() == Phase::Absent {
            // The definition failed before it was complete: this domain was never published.
            return;
        }
        if presence == Presence::Active && *event == VmEvent::QemuMissing {
            return;
        }
        if self.awaits_end_of_migration(&snapshot) {
            self.update_phase(presence);
            return;
        }
        // libvirt ends the source's QEMU after a migration, and reports that end in its next event.
        if snapshot.status == LifeCycle::Shutdown && self.job_events.is_stopped_for_switch() {
            return;
        }
        if presence == Presence::Absent && history.policy.last_published_active() {
            // A transient domain disappears when it ends, and libvirt then no longer has the reason of the end.
            if !is_end(event) && !matches!(event, VmEvent::Republish | VmEvent::QemuMissing) {
                return;
            }
            // A VM whose migration to this pod is incomplete did not run here, so it did not end here.
            if !history.policy.is_incoming() {
                self.publish_end(history);
            }
        }
        if presence == Presence::Absent && self.awaits_deletion(history) {
            history.policy.observe_published(false);
            self.update_phase(Presence::Inactive);
            return;
        }
        for publication in &others {
            self.publish(snapshot.clone(), publication, history);
        }
        history
            .policy
            .observe_published(presence == Presence::Active);
        if is_end(event) && presence != Presence::Active {
            self.start_notification.end();
        }
        if snapshot.spec.is_some() {
            history.last_snapshot = Some(snapshot);
        }
        self.update_phase(presence);
    }
}

/// Whether libvirt has started to receive a domain.
fn is_incoming_start(event: &VmEvent) -> bool {
    matches!(
        event,
        VmEvent::Libvirt(Event::Lifecycle {
            event: LifecycleEvent::Started,
            detail: Detail::Migrated,
            ..
        })
    )
}

/// Whether QEMU has exited.
fn is_end(event: &VmEvent) -> bool {
    matches!(
        event,
        VmEvent::QemuExited
            | VmEvent::Libvirt(Event::Lifecycle {
                event: LifecycleEvent::Stopped,
                ..
            })
    )
}
