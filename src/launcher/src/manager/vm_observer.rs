//! The task that watches the VM: receives events, reads the domain, updates the phase and notifies virt-handler.
//! It never changes the domain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::libvirt_spec::{DomainJson, DomainSpec};
use kubevirt_api::domain_metadata::KubeVirtMetadata;
use kubevirt_api::domain_state::{LifeCycle, reason};
use libvirt::{Detail, Event, LifecycleEvent};
use tokio::sync::{Mutex, mpsc, watch};

use super::Identity;
use super::alert_reporter::AlertReporter;
use super::incoming_stage::IncomingStage;
use super::kubevirt_metadata::{Metadata, now};
use super::last_notification::{LastNotification, Notification};
use super::reread_domain_retry::RereadDomainRetry;
use super::start_notification::StartNotification;
use super::vm_end_reason::EndReason;
use super::vm_state::Phase;
use crate::agent::{AgentLink, GuestInfoCache};
use crate::jobs::VmEventsForJob;
use crate::libvirt_client::{CallError, Client, DomainSnapshot, Presence};
use crate::notify::{EventType, Notifier, Publication, Publications};
use crate::vm_events::VmEvent;

/// The timeout of a snapshot, which is three quick calls to libvirt. virt-handler must be notified of a shutdown in time, even if the daemon hangs.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout after QEMU has exited without an event of libvirt's: the daemon most likely hangs.
const SNAPSHOT_TIMEOUT_AFTER_EXIT: Duration = Duration::from_millis(250);

/// Watches the VM.
pub(super) struct Observer {
    /// libvirt.
    pub client: Client,
    /// The VM to watch; events of other domains are ignored.
    pub identity: Identity,
    /// KubeVirt's metadata.
    pub metadata: Arc<Metadata>,
    /// virt-handler.
    pub notifier: Notifier,
    /// Whether virt-handler knows of the start.
    pub(super) start_report: StartNotification,
    /// The command that was started last and most likely caused the notification; for the log.
    pub(super) last_request: Arc<AtomicU64>,
    /// Reports panics and disk errors.
    pub(super) alert_reporter: AlertReporter,
    /// The guest agent's answers.
    pub(super) guest_info: Arc<GuestInfoCache>,
    /// Whether the guest agent can be asked, for the task that polls it.
    pub(super) agent_link: watch::Sender<AgentLink>,
    /// Held while the domain is being defined, so that an incomplete definition is not read.
    pub(super) defining: Arc<Mutex<()>>,
    /// Passes events to the running job.
    pub(super) job_events: Arc<VmEventsForJob>,
    /// The VM's phase, for other tasks.
    pub state: watch::Sender<Phase>,
    /// The stage of a migration to this pod.
    pub(super) incoming_migration: watch::Sender<IncomingStage>,
    /// The events to handle.
    pub(super) events: Mutex<mpsc::UnboundedReceiver<VmEvent>>,
    /// State between events, which survives a restart of the task.
    pub(super) history: Mutex<ObserverHistory>,
}

const DOMAIN_NOT_READ: &str = "the domain could not be read";

/// The observer's state between events.
#[derive(Default)]
pub(super) struct ObserverHistory {
    /// The task has run before; events between its runs may be lost.
    has_run: bool,
    publications: Publications,
    /// The domain as last read, for when libvirt gives no answer.
    last: Option<DomainSnapshot>,
    /// The reason of the VM's end, if it is known before libvirt reports the end.
    end: EndReason,
    last_notification: LastNotification,
    /// The last attempt to read the domain has failed.
    last_read_failed: bool,
    /// The last attempt has published the domain, but not why it is paused.
    is_pause_unreported: bool,
    retry: RereadDomainRetry,
}

impl ObserverHistory {
    fn observe_resync(&mut self, result: Result<(), String>) {
        if let Err(reason) = &result {
            tracing::warn!(
                reason,
                "the domain could not be read after libvirt's events may have been lost"
            );
        }
        self.retry.observe(result.is_ok());
    }

    fn spec(&self) -> Option<Arc<DomainSpec>> {
        self.last.as_ref()?.spec.clone()
    }
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
                () = history.retry.due() => {
                    self.retry_resync(&mut history).await;
                    continue;
                }
            };
            let Some(event) = event else { return };
            if self.is_duplicate_incoming_start(&event) {
                // It was published during the resync. It may also be the start of the source's next attempt.
                self.job_events.observe(&event);
                history.end.observe(&event);
            } else if self.is_relevant(&event) {
                self.job_events.observe(&event);
                if let VmEvent::Libvirt(event) = &event {
                    self.alert_reporter.observe(event, &self.notifier).await;
                }
                if event == VmEvent::Republish {
                    self.resync(&mut history).await;
                } else {
                    self.observe(&event, &mut history).await;
                }
                self.update_incoming_stage(&event);
                if event == VmEvent::StartFailed {
                    self.start_report.end();
                }
            }
        }
    }

    fn is_relevant(&self, event: &VmEvent) -> bool {
        match event {
            VmEvent::Libvirt(event) => event.domain() == Some(self.identity.domain.as_str()),
            VmEvent::Metadata
            | VmEvent::BackupEnded
            | VmEvent::GuestInfo
            | VmEvent::Republish
            | VmEvent::Redefining
            | VmEvent::NotRedefined
            | VmEvent::QemuEnded
            | VmEvent::QemuMissing
            | VmEvent::StartingUp
            | VmEvent::StartFailed
            | VmEvent::GuestAsked
            | VmEvent::Destroying
            | VmEvent::Departing => true,
        }
    }

    /// Whether this is the start of an incoming migration that a resync has already published.
    fn is_duplicate_incoming_start(&self, event: &VmEvent) -> bool {
        self.is_relevant(event)
            && is_incoming_start(event)
            && self.incoming_migration.borrow().has_begun()
    }

    /// Publishes the domain as it is now, after events may have been lost; again later if libvirt gives no answer.
    async fn resync(&self, history: &mut ObserverHistory) {
        let result = self.try_resync(history).await;
        history.observe_resync(result);
    }

    /// Repeats the part of the resync that libvirt did not answer. Published states are not published again.
    async fn retry_resync(&self, history: &mut ObserverHistory) {
        if history.is_pause_unreported && !history.last_read_failed {
            let result = self.report_pause(history).await;
            history.observe_resync(result);
        } else {
            self.resync(history).await;
        }
    }

    async fn try_resync(&self, history: &mut ObserverHistory) -> Result<(), String> {
        history.is_pause_unreported = false;
        let lost_events = self.lost_incoming_events().await?;
        if lost_events.is_empty() {
            history.last_read_failed = false;
            self.observe(&VmEvent::Republish, history).await;
            if history.last_read_failed {
                return Err(DOMAIN_NOT_READ.to_owned());
            }
            return self.report_pause(history).await;
        }
        for (event, detail) in lost_events {
            let domain = self.identity.domain.clone();
            let event = VmEvent::Libvirt(Event::Lifecycle {
                domain,
                event,
                detail,
            });
            history.last_read_failed = false;
            self.observe(&event, history).await;
            if history.last_read_failed {
                return Err(DOMAIN_NOT_READ.to_owned());
            }
            self.update_incoming_stage(&event);
        }
        Ok(())
    }

    /// Alerts of disk errors that paused the VM while events were lost.
    async fn report_pause(&self, history: &mut ObserverHistory) -> Result<(), String> {
        history.is_pause_unreported = true;
        let is_paused = |snapshot: &&DomainSnapshot| {
            snapshot.status == LifeCycle::Paused && snapshot.reason == reason::IO_ERROR
        };
        if let Some(snapshot) = history.last.as_ref().filter(is_paused) {
            let errors = with_snapshot_timeout(self.client.disk_errors(snapshot)).await?;
            self.alert_reporter
                .observe_pause(errors, &self.notifier)
                .await;
        }
        history.is_pause_unreported = false;
        Ok(())
    }

    /// Events of an incoming migration that were lost, as derived from the domain's state.
    async fn lost_incoming_events(&self) -> Result<Vec<(LifecycleEvent, Detail)>, String> {
        let stage = *self.incoming_migration.borrow();
        if !stage.is_under_way() {
            return Ok(Vec::new());
        }
        let domain = with_snapshot_timeout(self.client.lookup_with_state()).await?;
        Ok(stage.lost_events(domain.map(|(_, state)| state)))
    }

    async fn observe(&self, event: &VmEvent, history: &mut ObserverHistory) {
        history.end.observe(event);
        if is_incoming_start(event) {
            self.metadata.set_incoming_migration_start();
        }
        if *event == VmEvent::GuestInfo && !self.guest_info.is_unpublished() {
            return;
        }
        let publications = history.publications.observe(event);
        if publications.is_empty() {
            return;
        }
        tracing::debug!(?event, "domain event");
        let (starting, others): (Vec<_>, Vec<_>) =
            publications.into_iter().partition(|one| one.starting_up);
        for publication in starting {
            self.publish_start(&publication, history);
        }
        if others.is_empty() {
            return;
        }
        let snapshot = self.snapshot_after(event, history).await;
        let Some(snapshot) = snapshot.map(|snapshot| history.end.correct(snapshot)) else {
            if *event == VmEvent::QemuEnded {
                self.update_phase(Presence::Off);
            }
            return;
        };
        if *event == VmEvent::Republish && snapshot.status == LifeCycle::Running {
            self.job_events.observe_running_guest();
        }
        self.update_agent_link(event, &snapshot);
        let presence = snapshot.presence();
        if presence == Presence::Nothing && *self.state.borrow() == Phase::Absent {
            // A definition that failed half-way: this domain was never published.
            return;
        }
        if presence == Presence::On && *event == VmEvent::QemuMissing {
            return;
        }
        if self.awaits_end_of_migration(&snapshot) {
            self.update_phase(presence);
            return;
        }
        // libvirt ends the source's QEMU after a migration, and reports the end next.
        if snapshot.status == LifeCycle::Shutdown && self.job_events.is_handed_over() {
            return;
        }
        if presence == Presence::Nothing && history.publications.last_published_active() {
            // A transient domain disappears when it ends, and its reason with it.
            if !is_end(event) && !matches!(event, VmEvent::Republish | VmEvent::QemuMissing) {
                return;
            }
            // A VM whose migration to this pod is incomplete did not end here.
            if !history.publications.is_incoming() {
                self.publish_end(history);
            }
        }
        for publication in &others {
            self.publish(snapshot.clone(), publication, history);
        }
        history
            .publications
            .observe_published(presence == Presence::On);
        if is_end(event) && presence != Presence::On {
            self.start_report.end();
        }
        if snapshot.spec.is_some() {
            history.last = Some(snapshot);
        }
        self.update_phase(presence);
    }

    /// Only a guest that runs can answer; each connection of its agent is a session of its own.
    fn update_agent_link(&self, event: &VmEvent, snapshot: &DomainSnapshot) {
        let running = snapshot.status == LifeCycle::Running;
        let reachable = running && snapshot.is_agent_connected();
        let connects = matches!(
            event,
            VmEvent::Libvirt(Event::AgentLifecycle {
                connected: true,
                ..
            })
        );
        self.agent_link.send_if_modified(|link| {
            let next = AgentLink {
                reachable,
                session: link.session + u64::from(connects),
            };
            std::mem::replace(link, next) != next
        });
    }

    /// Called after the event was published, since other tasks publish what follows from the stage.
    fn update_incoming_stage(&self, event: &VmEvent) {
        if let VmEvent::Libvirt(event) = event {
            self.incoming_migration.send_if_modified(|stage| {
                let next = stage.observe(event);
                std::mem::replace(stage, next) != next
            });
        }
    }

    /// virt-handler deletes a domain that has migrated. It gets that state with the migration's end, which follows within
    /// milliseconds. A daemon that died at the switch calls the same end a crash, which would fail a VMI that runs on the
    /// target: that state waits, too, until the target was asked, and is dropped if the guest runs there.
    fn awaits_end_of_migration(&self, snapshot: &DomainSnapshot) -> bool {
        if snapshot.status != LifeCycle::Shutoff {
            return false;
        }
        let Some(record) = self.metadata.current().migration else {
            return false;
        };
        let has_ended = record.end_timestamp.is_some();
        match snapshot.reason {
            reason::MIGRATED => !has_ended,
            // The record may have ended after the snapshot was taken.
            reason::CRASHED if self.job_events.is_handed_over() => !has_ended || !record.failed,
            _ => false,
        }
    }

    fn update_phase(&self, presence: Presence) {
        self.state.send_if_modified(|state| {
            let next = state.observe(presence);
            std::mem::replace(state, next) != next
        });
    }

    /// Publishes a start from the domain as last read: libvirt answers queries about the domain only after the start,
    /// and the notification has to be sent before.
    fn publish_start(&self, publication: &Publication, history: &mut ObserverHistory) {
        if !self.start_report.is_unreported() {
            return;
        }
        if let Some(spec) = history.spec() {
            self.publish(DomainSnapshot::starting_up(spec), publication, history);
            history.publications.observe_published(true);
        }
    }

    fn publish_end(&self, history: &mut ObserverHistory) {
        if let Some(spec) = history.spec() {
            let ended = DomainSnapshot::shut_off(spec, history.end.reason());
            self.publish(ended, &Publication::MODIFIED, history);
        }
    }

    /// The domain after an event; `None` when libvirt gives no answer and nothing can be published without one.
    async fn snapshot_after(
        &self,
        event: &VmEvent,
        history: &mut ObserverHistory,
    ) -> Option<DomainSnapshot> {
        let ended = *event == VmEvent::QemuEnded;
        let deadline = if ended {
            SNAPSHOT_TIMEOUT_AFTER_EXIT
        } else {
            SNAPSHOT_TIMEOUT
        };
        let snapshot = self.snapshot(deadline).await;
        history.last_read_failed = snapshot.is_err();
        match snapshot {
            Ok(snapshot) => Some(snapshot),
            Err(error) if ended => {
                tracing::warn!(reason = error, "libvirt cannot be asked how QEMU ended");
                let spec = history.spec()?;
                Some(DomainSnapshot::shut_off(spec, history.end.reason()))
            }
            Err(error)
                if matches!(
                    event,
                    VmEvent::Metadata | VmEvent::BackupEnded | VmEvent::GuestInfo
                ) =>
            {
                tracing::warn!(reason = error, "the domain is reported as it was read last");
                history.last.clone()
            }
            Err(error) => {
                tracing::error!(reason = error, "could not read the domain after an event");
                None
            }
        }
    }

    async fn snapshot(&self, deadline: Duration) -> Result<DomainSnapshot, String> {
        let defined = tokio::time::timeout(deadline, self.defining.lock());
        let _defined = defined.await.map_err(|error| error.to_string())?;
        let snapshot = self.client.snapshot(deadline).await;
        snapshot.map_err(|error| error.to_string())
    }

    fn publish(
        &self,
        snapshot: DomainSnapshot,
        publication: &Publication,
        history: &mut ObserverHistory,
    ) {
        let (metadata, version) = if publication.with_metadata {
            self.metadata.to_publish()
        } else {
            Default::default()
        };
        self.notify(snapshot, metadata, publication, history);
        // After the last metadata, the launcher flushes the notifier and exits.
        if publication.with_metadata {
            self.metadata.mark_published(version);
        }
    }

    /// Notifies virt-handler, unless that would repeat the last notification.
    fn notify(
        &self,
        snapshot: DomainSnapshot,
        metadata: KubeVirtMetadata,
        publication: &Publication,
        history: &mut ObserverHistory,
    ) {
        let is_gone = snapshot.is_gone();
        let alive = snapshot.presence() == Presence::On;
        let Identity {
            namespace,
            name,
            uid,
            ..
        } = &self.identity;
        let mut domain = snapshot.domain(namespace, name, uid, metadata);
        self.alert_reporter.add_panic(&mut domain.status);
        self.guest_info.add_to_notification(&mut domain.status);
        let json = match domain.to_json() {
            Ok(json) => json,
            Err(error) => return report_encoding(&error),
        };
        let notification = Notification {
            event_type: publication.event_type,
            json,
        };
        let repeated = history.last_notification.receipt_of_equal(&notification);
        let receipt = match repeated {
            Some(receipt) => receipt,
            None => {
                self.log_notification(&domain, publication.event_type);
                let json = match is_gone {
                    true => with_deletion_timestamp(domain),
                    false => Ok(notification.json.clone()),
                };
                let json = match json {
                    Ok(json) => json,
                    Err(error) => return report_encoding(&error),
                };
                let sent = self
                    .notifier
                    .domain_event(publication.event_type, alive, json);
                history.last_notification = LastNotification::new(notification, sent.clone());
                sent
            }
        };
        if alive && self.start_report.is_unreported() {
            self.start_report.observe(receipt);
        }
    }

    fn log_notification(&self, domain: &DomainJson, event_type: EventType) {
        tracing::info!(
            event = event_type.as_str(),
            status = %domain.status.status,
            reason = domain.status.reason,
            request = self.last_request.load(Ordering::Relaxed),
            "domain {}",
            self.identity.domain
        );
    }
}

/// virt-handler removes a domain with a deletion timestamp from its cache.
fn with_deletion_timestamp(mut domain: DomainJson) -> serde_json::Result<Vec<u8>> {
    domain.metadata.deletion_timestamp = Some(now());
    domain.to_json()
}

/// The answer of quick calls to libvirt, on which notifications wait.
async fn with_snapshot_timeout<T>(
    calls: impl Future<Output = Result<T, CallError>>,
) -> Result<T, String> {
    match tokio::time::timeout(SNAPSHOT_TIMEOUT, calls).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "libvirt gave no answer within {SNAPSHOT_TIMEOUT:?}"
        )),
    }
}

fn report_encoding(error: &serde_json::Error) {
    tracing::error!(reason = %error, "could not encode the domain");
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
        VmEvent::QemuEnded
            | VmEvent::Libvirt(Event::Lifecycle {
                event: LifecycleEvent::Stopped,
                ..
            })
    )
}
