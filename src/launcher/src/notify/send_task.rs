//! The task that sends notifications.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hook_host::error_chain;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::Instant;

use super::notification_client::{NotificationClient, SendError};
use super::waiting_notifications::{Message, NotificationQueue, Outgoing};
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
