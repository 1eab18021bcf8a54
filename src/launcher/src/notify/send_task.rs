//! The task that sends notifications.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hook_host::error_chain;
use hyper_util::rt::TokioIo;
use proto::notify::info::NotifyInfoRequest;
use proto::notify::info::notify_info_client::NotifyInfoClient;
use proto::notify::v1::notify_client::NotifyClient;
use proto::notify::v1::{DomainEventRequest, K8sEventRequest, Response};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};

use super::{Delivery, RetryTimes};

/// The task that sends notifications. When it is run again after a panic, it continues with the queued notifications.
#[derive(Clone)]
pub struct SendTask(Arc<Mutex<Sender>>);

impl SendTask {
    pub(super) fn new(
        socket: &Path,
        retry_times: RetryTimes,
        retry_now: Arc<Notify>,
        received: mpsc::UnboundedReceiver<Message>,
    ) -> SendTask {
        SendTask(Arc::new(Mutex::new(Sender {
            client: NotificationClient::new(socket),
            retry_times,
            pause: retry_times.first_pause,
            retry_now,
            received,
            queue: NotificationQueue::default(),
        })))
    }

    /// Sends until the last clone of the notifier is dropped.
    pub async fn run(&self) {
        self.0.lock().await.run().await;
    }
}

struct Sender {
    client: NotificationClient,
    retry_times: RetryTimes,
    /// The pause before the next attempt, if the current one fails.
    pause: Duration,
    retry_now: Arc<Notify>,
    received: mpsc::UnboundedReceiver<Message>,
    queue: NotificationQueue,
}

impl Sender {
    async fn run(&mut self) {
        while let Some(message) = self.next().await {
            match message {
                Message::Send(outgoing) => self.send(outgoing).await,
                Message::Flush(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    async fn next(&mut self) -> Option<Message> {
        self.receive_queued();
        // If virt-handler answers more slowly than the domain changes, it gets only the newest state.
        if self.queue.is_handler_slow() {
            self.shorten_queue();
        }
        match self.queue.next() {
            Some(message) => Some(message),
            None => self.received.recv().await,
        }
    }

    /// Queues what arrives until `work` ends, so that the queue's limit holds while virt-handler does not answer.
    async fn queue_during<T>(
        received: &mut mpsc::UnboundedReceiver<Message>,
        queue: &mut NotificationQueue,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                Some(message) = received.recv() => {
                    queue.push(message);
                    if queue.is_handler_slow() {
                        queue.shorten();
                    }
                }
            }
        }
    }

    /// Sends a notification once. If it is not delivered, it is queued again before all others.
    async fn send(&mut self, mut outgoing: Outgoing) {
        let first_attempt = *outgoing.first_attempt.get_or_insert_with(Instant::now);
        let sending = self.client.send(&outgoing.call);
        let sent = Self::queue_during(&mut self.received, &mut self.queue, sending).await;
        let error = match sent {
            Ok(()) => {
                self.pause = self.retry_times.first_pause;
                return outgoing.confirm(Delivery::Accepted);
            }
            Err(error) => error,
        };
        if !error.is_transient()
            || first_attempt.elapsed() + self.pause > self.retry_times.give_up_after
        {
            log_lost(&outgoing, &error);
            return outgoing.confirm(Delivery::Lost);
        }
        tracing::debug!(reason = %error_chain(&error), "notification not delivered, trying again");
        self.queue.push_front(outgoing);
        let pause = tokio::time::timeout(self.pause, self.retry_now.notified());
        let _ = Self::queue_during(&mut self.received, &mut self.queue, pause).await;
        self.pause = (self.pause * 2).min(self.retry_times.max_pause);
        self.shorten_queue();
    }

    fn receive_queued(&mut self) {
        while let Ok(message) = self.received.try_recv() {
            self.queue.push(message);
        }
    }

    fn shorten_queue(&mut self) {
        self.receive_queued();
        self.queue.shorten();
    }
}

fn log_lost(outgoing: &Outgoing, error: &SendError) {
    tracing::error!(reason = %error_chain(error), kind_of = outgoing.name(), "gave up a notification");
}

/// Timeout of connecting and of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The version of the notification service that the launcher uses.
const NOTIFY_VERSION: u32 = 1;

/// Why a notification could not be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// virt-handler does not accept connections (yet).
    #[error("connecting to virt-handler at {socket}: {source}")]
    Connect {
        socket: PathBuf,
        source: tonic::transport::Error,
    },
    /// virt-handler does not support the launcher's version of the service.
    #[error(
        "virt-handler at {socket} knows notification versions {offered:?}, the launcher only {NOTIFY_VERSION}"
    )]
    Version { socket: PathBuf, offered: Vec<u32> },
    /// The call failed.
    #[error("virt-handler did not take the notification: {0}")]
    Call(#[from] Box<Status>),
    /// virt-handler received the notification and reported a failure.
    #[error("virt-handler could not handle the notification: {0}")]
    Refused(String),
}

impl SendError {
    /// Whether another attempt may succeed: not if virt-handler has received the notification and answers that it failed.
    /// A gRPC status does not tell whether it received it; KubeVirt's launcher repeats the call after every one too.
    pub(super) fn is_transient(&self) -> bool {
        !matches!(self, SendError::Refused(_))
    }
}

/// A call of the notification service.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Call {
    Domain(DomainEventRequest),
    Kubernetes(K8sEventRequest),
}

/// Connects on demand, and keeps the connection until an error.
pub(super) struct NotificationClient {
    socket: PathBuf,
    connection: Option<NotifyClient<Channel>>,
}

impl NotificationClient {
    pub(super) fn new(socket: &Path) -> NotificationClient {
        NotificationClient {
            socket: socket.to_owned(),
            connection: None,
        }
    }

    /// Sends a notification once. After a transient error the next attempt opens a new connection.
    pub(super) async fn send(&mut self, call: &Call) -> Result<(), SendError> {
        let result = self.attempt(call).await;
        if result.as_ref().is_err_and(SendError::is_transient) {
            self.connection = None;
        }
        result
    }

    async fn attempt(&mut self, call: &Call) -> Result<(), SendError> {
        let client = match &mut self.connection {
            Some(client) => client,
            none => none.insert(connect(&self.socket).await?),
        };
        let response = match call {
            Call::Domain(request) => client.handle_domain_event(request.clone()).await,
            Call::Kubernetes(request) => client.handle_k8s_event(request.clone()).await,
        };
        check_response(response.map_err(Box::new)?.into_inner())
    }
}

/// Checks the response. A server that reports errors through gRPC leaves `success` unset and the message empty.
fn check_response(response: Response) -> Result<(), SendError> {
    if response.success || response.message.is_empty() {
        Ok(())
    } else {
        Err(SendError::Refused(response.message))
    }
}

async fn connect(socket: &Path) -> Result<NotifyClient<Channel>, SendError> {
    let path = socket.to_owned();
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://localhost")
        .connect_timeout(CALL_TIMEOUT)
        .timeout(CALL_TIMEOUT)
        .connect_with_connector(connector)
        .await
        .map_err(|source| SendError::Connect {
            socket: socket.to_owned(),
            source,
        })?;
    negotiate(socket, channel).await
}

/// Requires that virt-handler supports the launcher's version.
async fn negotiate(socket: &Path, channel: Channel) -> Result<NotifyClient<Channel>, SendError> {
    let info = NotifyInfoClient::new(channel.clone())
        .info(NotifyInfoRequest {})
        .await
        .map_err(Box::new)?;
    let offered = info.into_inner().supported_notify_versions;
    if offered.contains(&NOTIFY_VERSION) {
        Ok(NotifyClient::new(channel))
    } else {
        Err(SendError::Version {
            socket: socket.to_owned(),
            offered,
        })
    }
}

/// Maximum number of queued notifications while virt-handler is down. The oldest are dropped first, because every
/// domain event contains the whole state.
const MAX_QUEUED: usize = 128;
/// A longer queue means that virt-handler is slow: one change of the VM causes fewer notifications.
const SLOW_HANDLER_LENGTH: usize = 16;

/// A message to the sending task.
pub(super) enum Message {
    Send(Outgoing),
    /// Answer when all notifications before this message were sent or given up.
    Flush(oneshot::Sender<()>),
}

/// A notification that is to be delivered.
pub(super) struct Outgoing {
    pub(super) call: Call,
    /// Whether the domain is alive in this notification.
    alive: bool,
    /// The receipt of this notification, and those of the notifications that it replaces.
    receipts: Vec<oneshot::Sender<Delivery>>,
    pub(super) first_attempt: Option<Instant>,
}

impl Outgoing {
    pub(super) fn domain_event(
        request: DomainEventRequest,
        alive: bool,
        receipt: oneshot::Sender<Delivery>,
    ) -> Outgoing {
        Outgoing {
            call: Call::Domain(request),
            alive,
            receipts: vec![receipt],
            first_attempt: None,
        }
    }

    pub(super) fn kubernetes_event(
        request: K8sEventRequest,
        receipt: oneshot::Sender<Delivery>,
    ) -> Outgoing {
        Outgoing {
            call: Call::Kubernetes(request),
            alive: false,
            receipts: vec![receipt],
            first_attempt: None,
        }
    }

    pub(super) fn confirm(self, delivery: Delivery) {
        for receipt in self.receipts {
            // Fails if the publisher does not wait for the receipt.
            let _ = receipt.send(delivery);
        }
    }

    /// The kind of the notification for log lines: `ADDED`, `MODIFIED` or a Kubernetes event.
    pub(super) fn name(&self) -> &str {
        match &self.call {
            Call::Domain(request) => &request.event_type,
            Call::Kubernetes(_) => "Kubernetes event",
        }
    }
}

/// The queue of the sending task.
#[derive(Default)]
pub(super) struct NotificationQueue(VecDeque<Message>);

impl NotificationQueue {
    pub(super) fn next(&mut self) -> Option<Message> {
        self.0.pop_front()
    }

    pub(super) fn push(&mut self, message: Message) {
        self.0.push_back(message);
    }

    /// Whether virt-handler accepts notifications more slowly than the VM changes.
    pub(super) fn is_handler_slow(&self) -> bool {
        self.0.len() > SLOW_HANDLER_LENGTH
    }

    /// Puts back a notification that was not delivered, before all others.
    pub(super) fn push_front(&mut self, outgoing: Outgoing) {
        self.0.push_front(Message::Send(outgoing));
    }

    /// Drops what is superseded, and above the limit the oldest.
    pub(super) fn shorten(&mut self) {
        self.drop_superseded();
        for dropped in self.take_excess() {
            tracing::error!(
                kind_of = dropped.name(),
                "dropped a notification: virt-handler is away and too many wait"
            );
            dropped.confirm(Delivery::Lost);
        }
    }

    /// Drops the domain events before the newest one in which the domain is alive. virt-handler acts on each event that
    /// it reads: an event that the domain is off, from before its start, lets virt-handler delete the running domain if
    /// it knows from `GetDomain` that the VM has started.
    fn drop_superseded(&mut self) {
        let is_alive =
            |message: &Message| matches!(message, Message::Send(outgoing) if outgoing.alive);
        let Some(newest) = self.0.iter().rposition(is_alive) else {
            return;
        };
        let later = self.0.split_off(newest);
        let mut receipts = Vec::new();
        for message in std::mem::take(&mut self.0) {
            match message {
                Message::Send(Outgoing {
                    call: Call::Domain(_),
                    receipts: superseded,
                    ..
                }) => receipts.extend(superseded),
                kept => self.0.push_back(kept),
            }
        }
        self.0.extend(later);
        let newest = self.0.iter_mut().find(|message| is_alive(message));
        if let Some(Message::Send(newest)) = newest {
            newest.receipts.extend(receipts);
        }
    }

    /// Removes the oldest notifications above the maximum.
    fn take_excess(&mut self) -> Vec<Outgoing> {
        let is_send = |message: &Message| matches!(message, Message::Send(_));
        let waiting = self.0.iter().filter(|message| is_send(message)).count();
        let excess = waiting.saturating_sub(MAX_QUEUED);
        let take_oldest = |_| match self.0.remove(self.0.iter().position(is_send)?) {
            Some(Message::Send(oldest)) => Some(oldest),
            _ => None,
        };
        (0..excess).filter_map(take_oldest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, alive: bool) -> (Message, oneshot::Receiver<Delivery>) {
        let (sender, receipt) = oneshot::channel();
        let request = DomainEventRequest {
            event_type: name.to_owned(),
            ..DomainEventRequest::default()
        };
        let outgoing = Outgoing::domain_event(request, alive, sender);
        (Message::Send(outgoing), receipt)
    }

    fn waiting(events: &[(&str, bool)]) -> NotificationQueue {
        let messages = events.iter().map(|(name, alive)| event(name, *alive).0);
        NotificationQueue(messages.collect())
    }

    fn names(waiting: &NotificationQueue) -> Vec<&str> {
        let names = waiting.0.iter().map(|message| match message {
            Message::Send(outgoing) => outgoing.name(),
            Message::Flush(_) => "flush",
        });
        names.collect()
    }

    #[test]
    fn alive_domain_replaces_all_earlier_states() {
        let mut waiting = waiting(&[("off", false), ("starting", true), ("running", true)]);
        waiting.drop_superseded();
        assert_eq!(names(&waiting), ["running"]);
    }

    #[test]
    fn notifications_of_the_end_are_not_dropped() {
        let mut waiting = waiting(&[("running", true), ("crashed", false), ("gone", false)]);
        waiting.drop_superseded();
        assert_eq!(names(&waiting), ["running", "crashed", "gone"]);
    }

    #[test]
    fn kubernetes_events_and_flushes_are_kept_in_order() {
        let mut waiting = waiting(&[("off", false)]);
        let warning = Outgoing::kubernetes_event(K8sEventRequest::default(), oneshot::channel().0);
        waiting.push(Message::Send(warning));
        waiting.push(Message::Flush(oneshot::channel().0));
        waiting.push(event("running", true).0);
        waiting.push(event("off", false).0);
        waiting.drop_superseded();
        let left = ["Kubernetes event", "flush", "running", "off"];
        assert_eq!(names(&waiting), left);
    }

    #[test]
    fn receipt_of_a_replaced_notification_has_the_outcome_of_its_replacement() {
        let (off, mut receipt) = event("off", false);
        let mut waiting = NotificationQueue::default();
        waiting.push(off);
        waiting.push(event("running", true).0);
        waiting.drop_superseded();
        let Some(Message::Send(running)) = waiting.next() else {
            panic!("the queue is empty");
        };
        running.confirm(Delivery::Accepted);
        assert_eq!(receipt.try_recv().unwrap(), Delivery::Accepted);
    }

    #[test]
    fn oldest_notifications_are_dropped_above_the_maximum() {
        let mut waiting = waiting(&[("oldest", false)]);
        for _ in 0..MAX_QUEUED {
            waiting.push(event("later", false).0);
        }
        let dropped = waiting.take_excess();
        assert_eq!(dropped.len(), 1);
        assert_eq!(dropped[0].name(), "oldest");
        assert!(waiting.take_excess().is_empty());
    }
}
