//! virt-handler, as the launcher knows it: a server that takes notifications and a client that sends commands.

mod commands;
mod notify;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

pub use commands::{Answer, Commands};

/// What one notification said.
#[derive(Clone, Debug)]
pub enum Said {
    /// The domain is now like this.
    Domain {
        /// `ADDED`, `MODIFIED` or `DELETED`.
        event_type: String,
        /// KubeVirt's JSON of the domain.
        domain: Value,
    },
    /// A Kubernetes event.
    Kubernetes(Value),
}

/// One notification.
#[derive(Clone, Debug)]
pub struct Event {
    /// When it came, since this virt-handler began.
    pub at: Duration,
    /// What it said.
    pub said: Said,
}

impl Event {
    /// `Status/Reason` of a domain event (`Running/Unknown`), empty for a Kubernetes event.
    pub fn state(&self) -> String {
        match &self.said {
            Said::Domain { domain, .. } => {
                let text = |name: &str| {
                    domain["Status"][name]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned()
                };
                format!("{}/{}", text("Status"), text("Reason"))
            }
            Said::Kubernetes(_) => String::new(),
        }
    }

    /// `ADDED`, `MODIFIED` or `DELETED`; empty for a Kubernetes event.
    pub fn event_type(&self) -> &str {
        match &self.said {
            Said::Domain { event_type, .. } => event_type,
            Said::Kubernetes(_) => "",
        }
    }

    /// The domain, or null.
    pub fn domain(&self) -> &Value {
        match &self.said {
            Said::Domain { domain, .. } => domain,
            Said::Kubernetes(_) => &Value::Null,
        }
    }

    /// KubeVirt's metadata inside the domain (`GracePeriod` and the like).
    pub fn metadata(&self) -> &Value {
        &self.domain()["Spec"]["Metadata"]["KubeVirt"]
    }

    /// The Kubernetes event's reason (`HookFailed`), if this is one.
    pub fn kubernetes_reason(&self) -> Option<&str> {
        match &self.said {
            Said::Domain { .. } => None,
            Said::Kubernetes(event) => event["Reason"]
                .as_str()
                .or_else(|| event["reason"].as_str()),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.said {
            Said::Domain { event_type, domain } => {
                write!(formatter, "{event_type} {}", self.state())?;
                match domain["ObjectMeta"]["deletionTimestamp"].as_str() {
                    Some(time) => write!(formatter, " deletionTimestamp={time}"),
                    None => Ok(()),
                }
            }
            Said::Kubernetes(event) => {
                let reason = self.kubernetes_reason().unwrap_or_default();
                write!(
                    formatter,
                    "Kubernetes event {reason}: {}",
                    event["message"].as_str().unwrap_or_default()
                )
            }
        }
    }
}

/// A virt-handler for one launcher.
#[derive(Debug)]
pub struct VirtHandler {
    share_dir: PathBuf,
    begin: Instant,
    events: watch::Receiver<Vec<Event>>,
    server: JoinHandle<()>,
}

impl VirtHandler {
    /// Listens for notifications in the directory shared with the launcher.
    pub fn listen(share_dir: &Path) -> Result<VirtHandler> {
        let begin = Instant::now();
        let path = share_dir.join("domain-notify-pipe.sock");
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).with_context(|| format!("{}", path.display()))?;
        open_to_all(&path)?;
        let (sender, events) = watch::channel(Vec::new());
        let recorder = Arc::new(notify::Recorder::new(begin, sender));
        let server = tokio::spawn(async move {
            let served = Server::builder()
                .add_service(notify::info())
                .add_service(notify::service(recorder))
                .serve_with_incoming(UnixListenerStream::new(listener));
            let _ = served.await;
        });
        Ok(VirtHandler {
            share_dir: share_dir.to_owned(),
            begin,
            events,
            server,
        })
    }

    /// How long this virt-handler has run.
    pub fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// A client of the launcher, as soon as its socket has its ready name.
    pub async fn commands(&self, deadline: Duration) -> Result<Commands> {
        Commands::connect(&self.share_dir.join("sockets/launcher-sock"), deadline).await
    }

    /// All notifications as they come, for who wants to follow.
    pub fn feed(&self) -> watch::Receiver<Vec<Event>> {
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

    /// The first notification from number `from` on that `matches`.
    pub async fn wait_for(
        &self,
        what: &str,
        from: usize,
        deadline: Duration,
        matches: impl Fn(&Event) -> bool,
    ) -> Result<Event> {
        let mut events = self.events.clone();
        let found = |all: &Vec<Event>| all.iter().skip(from).find(|event| matches(event)).cloned();
        let waited =
            tokio::time::timeout(deadline, events.wait_for(|all| found(all).is_some())).await;
        match waited {
            Ok(Ok(all)) => found(&all).context("an event that was there is gone"),
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

    /// All notifications, one a line, with their times.
    pub fn history(&self) -> String {
        self.events()
            .iter()
            .map(|event| format!("{:>7} ms {event}\n", event.at.as_millis()))
            .collect()
    }
}

impl Drop for VirtHandler {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// uid 107 connects to sockets that root has made.
pub(crate) fn open_to_all(socket: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(
        socket,
        std::fs::Permissions::from_mode(0o777),
    )?)
}
