//! The informer with its cache of domains: filled at virt-handler's start, updated by notifications, and compared
//! with the launcher's domain at intervals.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::UnixStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::interval;

use super::VmController;
use super::notified_domain::NotifiedDomain;
use super::reconcile::state_of;
use super::steps_and_violations::Step;
use crate::emulated_virt_handler::command_client::{Commands, QUERY_TIMEOUT};
use crate::emulated_virt_handler::notification_services::DomainEvent;

/// The time without a listener on the command socket after which the launcher counts as gone.
const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval at which the command socket is tested.
const WATCH_INTERVAL: Duration = Duration::from_secs(11);
/// The timeout of connecting for such a test.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The cache of the informer: the domain of the last notification.
#[derive(Debug, Default)]
pub(super) struct DomainCache {
    domain: Mutex<Option<NotifiedDomain>>,
}

impl DomainCache {
    fn set(&self, domain: Option<NotifiedDomain>) {
        *self.domain.lock().unwrap_or_else(PoisonError::into_inner) = domain;
    }

    pub(super) fn get(&self) -> Option<NotifiedDomain> {
        let domain = self.domain.lock().unwrap_or_else(PoisonError::into_inner);
        domain.clone()
    }

    pub(super) fn remove(&self) {
        self.set(None);
    }
}

impl VmController {
    /// Fills the cache at virt-handler's start, if it was connected to the launcher before.
    pub(super) async fn list(&self) {
        self.domains.remove();
        self.api_server.list();
        if self.launcher.has_ghost_record() {
            self.domains.set(self.find_domain().await);
        }
        self.step_log.add(Step::Started {
            domain: state_of(self.domains.get().as_ref()),
        });
        self.queue.add();
    }

    async fn find_domain(&self) -> Option<NotifiedDomain> {
        if !self.launcher.socket().exists() {
            return Some(self.deleted_domain(String::new()));
        }
        let unknown_domain = || NotifiedDomain {
            uid: self.vmi.uid().to_owned(),
            status: "Unknown".to_owned(),
            ..NotifiedDomain::default()
        };
        match self.query_launcher().await {
            Ok(domain) => domain,
            Err(()) => Some(unknown_domain()),
        }
    }

    /// Queries the launcher's domain over a new connection.
    async fn query_launcher(&self) -> Result<Option<NotifiedDomain>, ()> {
        let client: Commands = self.launcher.connect().await.map_err(drop)?;
        let begin = Instant::now();
        let answered = tokio::time::timeout(QUERY_TIMEOUT, client.domain()).await;
        let answer = answered.map_err(|_| format!("no answer within {QUERY_TIMEOUT:?}"));
        let answer = answer.and_then(|answer| answer.map_err(|error| format!("{error:#}")));
        self.step_log.add(Step::Called {
            method: "GetDomain",
            duration: begin.elapsed(),
            error: answer.as_ref().err().cloned(),
        });
        let domain = answer.map_err(drop)?;
        Ok((!domain.is_null()).then(|| NotifiedDomain::read(&domain)))
    }

    /// The deleted domain that virt-handler assumes if the launcher is gone.
    fn deleted_domain(&self, uid: String) -> NotifiedDomain {
        let mut facts = NotifiedDomain::read(&json!({"ObjectMeta": {"deletionTimestamp": "now"}}));
        facts.uid = uid;
        facts
    }

    /// Applies notifications until the task is aborted.
    pub(super) async fn watch(&self, mut events: UnboundedReceiver<DomainEvent>) {
        let mut resync = interval(self.settings.resync);
        let mut watchdog = interval(WATCH_INTERVAL);
        resync.reset();
        watchdog.reset();
        let mut no_listener_since = None;
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.apply_event(&event),
                    None => return,
                },
                _ = resync.tick() => self.resync().await,
                _ = watchdog.tick() => no_listener_since = self.watch_socket(no_listener_since).await,
            }
        }
    }

    fn apply_event(&self, event: &DomainEvent) {
        if event.domain["ObjectMeta"]["name"] != self.vmi.name() {
            return;
        }
        match event.event_type.as_str() {
            "ADDED" | "MODIFIED" => self.domains.set(Some(NotifiedDomain::read(&event.domain))),
            "DELETED" => self.domains.remove(),
            _ => return,
        }
        self.queue.add();
    }

    async fn resync(&self) {
        if self.launcher.has_ghost_record()
            && let Ok(Some(domain)) = self.query_launcher().await
        {
            self.domains.set(Some(domain));
            self.queue.add();
        }
    }

    async fn watch_socket(&self, no_listener_since: Option<Instant>) -> Option<Instant> {
        if !self.launcher.has_ghost_record() {
            return None;
        }
        let connected = UnixStream::connect(self.launcher.socket());
        if let Ok(Ok(_)) = tokio::time::timeout(CONNECT_TIMEOUT, connected).await {
            return None;
        }
        let since = no_listener_since.unwrap_or_else(Instant::now);
        if since.elapsed() > WATCHDOG_TIMEOUT {
            self.domains
                .set(Some(self.deleted_domain(self.vmi.uid().to_owned())));
            self.launcher.mark_unresponsive();
            self.queue.add();
        }
        Some(since)
    }
}
