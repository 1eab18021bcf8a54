//! A virt-handler for one launcher: a server that receives notifications, a client that sends commands, and
//! ([`VirtHandler::create`]) the controller that decides which commands to send.

mod command_client;
mod controller;
mod domain_or_kubernetes_event;
mod notification_services;
mod notify_pipe;
mod vmi_and_virt_handler_lifecycle;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Server;

pub use command_client::{Answer, Commands};
pub(crate) use command_client::{COMMAND_TIMEOUT, DeadlineClient, FREEZE_TIMEOUT, QUERY_TIMEOUT};
pub use controller::{
    Decision, DomainGrace, LauncherState, NotifiedDomain, Phase, Settings, Step, StepEntry,
    VmiFacts, decide, is_early_delete, next_phase,
};
pub use domain_or_kubernetes_event::{Event, EventPayload};

use controller::{Steps, VmController};
use notify_pipe::NotifyPipe;

/// A virt-handler for one launcher.
#[derive(Debug)]
pub struct VirtHandler {
    share_dir: PathBuf,
    begin: Instant,
    events: watch::Receiver<Vec<Event>>,
    server: JoinHandle<()>,
    pipe: Arc<NotifyPipe>,
    event_receiver: notification_services::DomainEventReceiver,
    vm: Mutex<Option<Arc<VmController>>>,
    steps: Steps,
}

impl VirtHandler {
    /// Listens for notifications in the directory shared with the launcher.
    pub fn listen(share_dir: &Path) -> Result<VirtHandler> {
        let begin = Instant::now();
        let (incoming, connections) = mpsc::unbounded_channel();
        let pipe = Arc::new(NotifyPipe::new(share_dir, incoming));
        pipe.open()?;
        let (sender, events) = watch::channel(Vec::new());
        let event_receiver = notification_services::DomainEventReceiver::default();
        let recorder = Arc::new(notification_services::Recorder::new(
            begin,
            sender,
            event_receiver.clone(),
        ));
        let server = tokio::spawn(async move {
            let serving = Server::builder()
                .add_service(notification_services::info())
                .add_service(notification_services::service(recorder))
                .serve_with_incoming(UnboundedReceiverStream::new(connections));
            let _ = serving.await;
        });
        Ok(VirtHandler {
            share_dir: share_dir.to_owned(),
            begin,
            events,
            server,
            pipe,
            event_receiver,
            vm: Mutex::default(),
            steps: Steps::default(),
        })
    }

    /// The time since the start of this virt-handler.
    pub fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Waits for the launcher's command socket, and returns a client.
    pub async fn commands(&self, deadline: Duration) -> Result<Commands> {
        Commands::connect(&self.share_dir.join("sockets/launcher-sock"), deadline).await
    }

    /// A channel with all notifications.
    pub fn event_channel(&self) -> watch::Receiver<Vec<Event>> {
        self.events.clone()
    }

    /// All notifications so far.
    pub fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    /// `TYPE Status/Reason` of all domain events so far.
    pub fn states(&self) -> Vec<String> {
        let domain_events = self
            .events()
            .into_iter()
            .filter(|event| !event.event_type().is_empty());
        domain_events
            .map(|event| format!("{} {}", event.event_type(), event.state()))
            .collect()
    }

    /// Waits for the first notification, from number `from` on, that `matches`.
    pub async fn wait_for(
        &self,
        what: &str,
        from: usize,
        deadline: Duration,
        matches: impl Fn(&Event) -> bool,
    ) -> Result<Event> {
        let mut events = self.events.clone();
        let first_match =
            |all: &Vec<Event>| all.iter().skip(from).find(|event| matches(event)).cloned();
        let result =
            tokio::time::timeout(deadline, events.wait_for(|all| first_match(all).is_some())).await;
        match result {
            Ok(Ok(all)) => first_match(&all).context("an event that was there is gone"),
            _ => bail!(
                "no event {what} within {deadline:?}; there were:\n{}",
                self.history()
            ),
        }
    }

    /// Waits for a domain event of this `Status/Reason`, from number `from` on.
    pub async fn wait_for_state(
        &self,
        state: &str,
        from: usize,
        deadline: Duration,
    ) -> Result<Event> {
        self.wait_for(state, from, deadline, |event| event.state() == state)
            .await
    }

    /// All notifications and all steps of virt-handler, one per line, with their times.
    pub fn history(&self) -> String {
        let events = self.events();
        let steps = self.steps();
        let events = events.iter().map(|event| (event.at, event.to_string()));
        let steps = steps
            .iter()
            .map(|entry| (entry.at, format!("  {}", entry.step)));
        let mut lines: Vec<(Duration, String)> = events.chain(steps).collect();
        lines.sort_by_key(|(at, _)| *at);
        let lines = lines.iter();
        lines
            .map(|(at, line)| format!("{:>7} ms {line}\n", at.as_millis()))
            .collect()
    }
}

impl Drop for VirtHandler {
    fn drop(&mut self) {
        let vm = self.vm.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(vm) = vm {
            vm.abort();
        }
        self.pipe.close_all();
        self.server.abort();
    }
}

/// Lets every user connect to a socket: uid 107 connects to sockets that root has created.
pub(crate) fn make_world_accessible(socket: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(
        socket,
        std::fs::Permissions::from_mode(0o777),
    )?)
}
