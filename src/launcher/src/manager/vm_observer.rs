//! The task that watches the VM: it receives events, reads the domain, updates the phase and notifies virt-handler.
//! It never changes the domain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::libvirt_spec::{DomainJson, DomainSpec};
use futures_util::FutureExt;
use kubevirt_api::domain_metadata::KubeVirtMetadata;
use kubevirt_api::domain_state::{LifeCycle, reason};
use libvirt::{Detail, Event, LifecycleEvent};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep_until};

use super::Identity;
use super::alert_reporter::AlertReporter;
use super::incoming_migration::IncomingMigrationStage;
use super::kubevirt_metadata::{MetadataStore, now};
use super::start_notification_acceptance::StartNotification;
use super::vm_end_reason::EndReason;
use super::vm_phase::Phase;
use crate::guest_agent::{AgentLink, GuestInfoCache};
use crate::jobs::VmEventsForJob;
use crate::libvirt_client::{CallError, Client, DomainSnapshot, Presence};
use crate::notify::{Delivery, EventType, NotificationPolicy, Notifier, Publication, Receipt};
use crate::vm_events::{VmEvent, VmEventReceiver};

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

// Builds notifications of the domain and hands them to the notifier, unless they have to wait for the end of a
// migration.

impl Observer {
    /// Publishes a start with the domain as it was last read: libvirt answers queries about the domain only after the
    /// start, and the notification has to be sent before.
    fn publish_start(&self, publication: &Publication, history: &mut ObserverHistory) {
        if !self.start_notification.is_unreported() {
            return;
        }
        if let Some(spec) = history.spec() {
            self.publish(DomainSnapshot::starting_up(spec), publication, history);
            history.policy.observe_published(true);
        }
    }

    /// Publishes the end of a domain that libvirt no longer knows, with the domain as it was last read.
    fn publish_end(&self, history: &mut ObserverHistory) {
        if let Some(spec) = history.spec() {
            let ended = DomainSnapshot::shut_off(spec, history.end.reason());
            self.publish(ended, &Publication::MODIFIED, history);
        }
    }

    /// Publishes a snapshot, with KubeVirt's metadata if the publication asks for them.
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
        // Last, because the launcher flushes the notifier and exits once its last metadata are marked.
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
        let alive = snapshot.presence() == Presence::Active;
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
            Err(error) => return log_encoding_error(&error),
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
                    Err(error) => return log_encoding_error(&error),
                };
                let sent = self
                    .notifier
                    .domain_event(publication.event_type, alive, json);
                history.last_notification = LastNotification::new(notification, sent.clone());
                sent
            }
        };
        if alive && self.start_notification.is_unreported() {
            self.start_notification.observe(receipt);
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

    /// Whether the notification that the domain does not exist has to wait for libvirt's event of that.
    ///
    /// Events that are handled late find the domain gone before its last event is handled. virt-handler would
    /// forget the domain, and with it the end of a migration whose event is still to come.
    fn awaits_deletion(&self, history: &ObserverHistory) -> bool {
        self.deletes_domain_by_event && !history.policy.is_deleted()
    }

    /// Whether the notification of this snapshot has to wait for the end of the migration.
    ///
    /// virt-handler deletes a domain that has migrated, so it is notified of that state only with the end of the
    /// migration, which follows within milliseconds. If libvirt's daemon dies during the switch to the target, the next
    /// one reports a crash, for which virt-handler would fail the VMI. That state also waits until the target was
    /// asked, and is dropped if the guest runs there.
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
            // The migration may have ended after the snapshot was taken.
            reason::CRASHED if self.job_events.is_stopped_for_switch() => {
                !has_ended || !record.failed
            }
            _ => false,
        }
    }
}

/// virt-handler removes a domain with a deletion timestamp from its cache.
fn with_deletion_timestamp(mut domain: DomainJson) -> serde_json::Result<Vec<u8>> {
    domain.metadata.deletion_timestamp = Some(now());
    domain.to_json()
}

fn log_encoding_error(error: &serde_json::Error) {
    tracing::error!(reason = %error, "could not encode the domain");
}

// The last notification of the domain, which is not repeated. Pure.
//
// virt-handler reconciles the whole VMI for each notification, and libvirt sends up to three events for one change.

/// The last notification to virt-handler, and whether virt-handler has accepted it.
#[derive(Default)]
pub(super) struct LastNotification(Option<(Notification, Receipt)>);

/// A notification without the time at which it was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notification {
    pub(super) event_type: EventType,
    /// The domain as JSON, without a deletion timestamp.
    pub(super) json: Vec<u8>,
}

impl LastNotification {
    pub(super) fn new(notification: Notification, receipt: Receipt) -> LastNotification {
        LastNotification(Some((notification, receipt)))
    }

    /// The receipt of the last notification, if that is equal to `next` and was not lost.
    pub(super) fn receipt_of_equal(&self, next: &Notification) -> Option<Receipt> {
        let (last, receipt) = self.0.as_ref()?;
        let is_lost = || {
            let delivery = receipt.clone().now_or_never();
            matches!(delivery, Some(Ok(Delivery::Lost) | Err(_)))
        };
        (last == next && !is_lost()).then(|| receipt.clone())
    }
}

/// Timeout of a snapshot, which is three quick calls of libvirt. It is short because virt-handler must be notified of a
/// shutdown in time, even if the daemon hangs.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a snapshot after QEMU has exited without an event from libvirt: the daemon most likely hangs.
const SNAPSHOT_TIMEOUT_AFTER_EXIT: Duration = Duration::from_millis(250);

impl Observer {
    /// The domain after an event. If libvirt gives no answer, the domain as last read where that suffices for the
    /// event, else `None`.
    async fn snapshot_after(
        &self,
        event: &VmEvent,
        history: &mut ObserverHistory,
    ) -> Option<DomainSnapshot> {
        let has_exited = *event == VmEvent::QemuExited;
        let timeout = if has_exited {
            SNAPSHOT_TIMEOUT_AFTER_EXIT
        } else {
            SNAPSHOT_TIMEOUT
        };
        let snapshot = self.snapshot(timeout).await;
        history.last_read_failed = snapshot.is_err();
        match snapshot {
            Ok(snapshot) => Some(snapshot),
            Err(error) if has_exited => {
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
                history.last_snapshot.clone()
            }
            Err(error) => {
                tracing::error!(reason = error, "could not read the domain after an event");
                None
            }
        }
    }

    async fn snapshot(&self, timeout: Duration) -> Result<DomainSnapshot, String> {
        let defining = tokio::time::timeout(timeout, self.defining.lock());
        let _defining = defining.await.map_err(|error| error.to_string())?;
        let snapshot = self.client.snapshot(timeout).await;
        snapshot.map_err(|error| error.to_string())
    }
}

/// The answer of calls that notifications wait for, or an error after [`SNAPSHOT_TIMEOUT`].
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

/// The observer's state between events.
#[derive(Default)]
pub(super) struct ObserverHistory {
    /// Whether the task has run before, so that events between its runs may be lost.
    has_run: bool,
    /// Decides which notifications follow from an event.
    policy: NotificationPolicy,
    /// The domain as it was last read, for notifications while libvirt gives no answer.
    last_snapshot: Option<DomainSnapshot>,
    /// The reason of the VM's end, if it is known before libvirt reports the end.
    end: EndReason,
    last_notification: LastNotification,
    /// Whether the last attempt to read the domain failed.
    last_read_failed: bool,
    /// Whether the last resync published the domain, but not the disk errors for which it is paused.
    is_pause_unreported: bool,
    /// When to read the domain again, after a resync or a read after an event failed.
    resync_backoff: ResyncBackoff,
}

impl ObserverHistory {
    /// Logs a failed resync, and schedules the next attempt.
    fn observe_resync(&mut self, result: Result<(), String>) {
        if let Err(reason) = &result {
            tracing::warn!(
                reason,
                "the domain could not be read after libvirt's events may have been lost"
            );
        }
        self.resync_backoff.observe(result.is_ok());
    }

    /// The domain's spec as it was last read.
    fn spec(&self) -> Option<Arc<DomainSpec>> {
        self.last_snapshot.as_ref()?.spec.clone()
    }
}

const DOMAIN_NOT_READ: &str = "the domain could not be read";

impl Observer {
    /// Publishes the domain as it is now, after events may have been lost. Is repeated later if libvirt gives no
    /// answer.
    async fn resync(&self, history: &mut ObserverHistory) {
        let result = self.try_resync(history).await;
        history.observe_resync(result);
    }

    /// Repeats the part of the resync that libvirt did not answer; what was published is not published again.
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

    /// Sends the alert of disk errors that have paused the VM while events were lost.
    async fn report_pause(&self, history: &mut ObserverHistory) -> Result<(), String> {
        history.is_pause_unreported = true;
        let is_paused = |snapshot: &&DomainSnapshot| {
            snapshot.status == LifeCycle::Paused && snapshot.reason == reason::IO_ERROR
        };
        if let Some(snapshot) = history.last_snapshot.as_ref().filter(is_paused) {
            let errors = with_snapshot_timeout(self.client.disk_errors(snapshot)).await?;
            self.alert_reporter
                .observe_pause(errors, &self.notifier)
                .await;
        }
        history.is_pause_unreported = false;
        Ok(())
    }

    /// The lost events of an incoming migration, derived from the domain's state.
    async fn lost_incoming_events(&self) -> Result<Vec<(LifecycleEvent, Detail)>, String> {
        let stage = *self.incoming_migration.borrow();
        if !stage.is_under_way() {
            return Ok(Vec::new());
        }
        let domain = with_snapshot_timeout(self.client.lookup_with_state()).await?;
        Ok(stage.lost_events(domain.map(|(_, state)| state)))
    }
}

/// The pause before the second attempt; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The time of the next attempt, if one is needed.
#[derive(Debug, Default)]
struct ResyncBackoff(Option<Attempt>);

#[derive(Debug)]
struct Attempt {
    at: Instant,
    pause: Duration,
}

impl ResyncBackoff {
    /// Schedules a first attempt, unless one is due already.
    fn begin(&mut self) {
        if self.0.is_none() {
            self.observe(false);
        }
    }

    /// Takes in the result of an attempt.
    fn observe(&mut self, has_succeeded: bool) {
        let last = self.0.take();
        if has_succeeded {
            return;
        }
        let pause = last.map_or(FIRST_PAUSE, |last| (last.pause * 2).min(LONGEST_PAUSE));
        let at = Instant::now() + pause;
        self.0 = Some(Attempt { at, pause });
    }

    /// Waits until the next attempt is due; for ever if none is needed.
    async fn due(&self) {
        match &self.0 {
            Some(attempt) => sleep_until(attempt.at).await,
            None => std::future::pending().await,
        }
    }
}

// Updates the watch channels that other tasks read: the VM's phase, the link to the guest agent, and the stage of an
// incoming migration.

impl Observer {
    /// Updates whether the guest agent can be asked, which takes a running guest. Each connection of the agent starts a
    /// new session.
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

    /// Updates the stage of a migration to this pod. Called after the event was published, because other tasks react to
    /// the stage and publish more.
    fn update_incoming_stage(&self, event: &VmEvent) {
        if let VmEvent::Libvirt(event) = event {
            self.incoming_migration.send_if_modified(|stage| {
                let next = stage.observe(event);
                std::mem::replace(stage, next) != next
            });
        }
    }

    fn update_phase(&self, presence: Presence) {
        self.phase.send_if_modified(|state| {
            let next = state.observe(presence);
            std::mem::replace(state, next) != next
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn notification(json: &str) -> Notification {
        Notification {
            event_type: EventType::Modified,
            json: json.into(),
        }
    }

    fn last(json: &str) -> (LastNotification, oneshot::Sender<Delivery>) {
        let (delivered, receipt) = oneshot::channel();
        let last = LastNotification::new(notification(json), receipt.shared());
        (last, delivered)
    }

    #[test]
    fn equal_notification_is_not_repeated_unless_it_was_lost() {
        let (last, delivered) = last("running");
        assert!(last.receipt_of_equal(&notification("running")).is_some());
        delivered.send(Delivery::Accepted).unwrap();
        let receipt = last.receipt_of_equal(&notification("running")).unwrap();
        assert_eq!(receipt.now_or_never(), Some(Ok(Delivery::Accepted)));
    }

    #[test]
    fn notification_with_another_state_or_type_is_sent() {
        let (last, _delivered) = last("running");
        assert!(last.receipt_of_equal(&notification("paused")).is_none());
        let added = Notification {
            event_type: EventType::Added,
            ..notification("running")
        };
        assert!(last.receipt_of_equal(&added).is_none());
        let empty = LastNotification::default();
        assert!(empty.receipt_of_equal(&notification("running")).is_none());
    }

    #[test]
    fn lost_notification_is_repeated() {
        let (lost, delivered) = last("running");
        delivered.send(Delivery::Lost).unwrap();
        assert!(lost.receipt_of_equal(&notification("running")).is_none());
        let (dropped, delivered) = last("running");
        drop(delivered);
        assert!(dropped.receipt_of_equal(&notification("running")).is_none());
    }

    #[test]
    fn pause_doubles_until_an_attempt_succeeds() {
        let mut retry = ResyncBackoff::default();
        let mut after = |has_succeeded| {
            retry.observe(has_succeeded);
            retry.0.as_ref().map(|next| next.pause.as_secs())
        };
        let pauses = [1, 2, 4, 8, 16, 30, 30].map(Some);
        assert_eq!(pauses.map(|_| after(false)), pauses);
        assert_eq!(after(true), None);
        assert_eq!(after(false), Some(1));
    }

    #[test]
    fn failed_reads_after_further_events_do_not_delay_an_attempt() {
        let mut retry = ResyncBackoff::default();
        retry.begin();
        let first = retry.0.as_ref().map(|next| next.at);
        assert!(first.is_some());
        retry.begin();
        assert_eq!(retry.0.as_ref().map(|next| next.at), first);
    }

    #[tokio::test]
    async fn no_attempt_is_due_without_a_failure() {
        let retry = ResyncBackoff::default();
        let due = tokio::time::timeout(Duration::from_millis(10), retry.due());
        assert!(due.await.is_err());
    }
}
