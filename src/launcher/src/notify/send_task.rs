//! The one task that sends notifications.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::Instant;

use super::notification_client::{Client, SendError};
use super::waiting_notifications::{Message, Outgoing, Waiting};
use super::{Delivery, Retry};

/// The task that sends. When it is run again after it has ended, it continues with what is queued.
#[derive(Clone)]
pub struct SendTask(Arc<Mutex<Sender>>);

impl SendTask {
    pub(super) fn new(
        socket: &Path,
        retry: Retry,
        retry_now: Arc<Notify>,
        received: mpsc::UnboundedReceiver<Message>,
    ) -> SendTask {
        SendTask(Arc::new(Mutex::new(Sender {
            client: Client::new(socket),
            retry,
            pause: retry.first,
            retry_now,
            received,
            waiting: Waiting::default(),
        })))
    }

    /// Sends until the last handle of the notifier is gone.
    pub async fn run(&self) {
        self.0.lock().await.run().await;
    }
}

struct Sender {
    client: Client,
    retry: Retry,
    /// The pause before the next attempt, if this one fails.
    pause: Duration,
    retry_now: Arc<Notify>,
    received: mpsc::UnboundedReceiver<Message>,
    waiting: Waiting,
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
        self.receive_waiting();
        // virt-handler answers, but more slowly than the domain changes.
        if self.waiting.is_long() {
            self.tidy_waiting();
        }
        match self.waiting.next() {
            Some(message) => Some(message),
            None => self.received.recv().await,
        }
    }

    /// One attempt. What is not delivered waits for the next one, behind nothing.
    async fn send(&mut self, mut outgoing: Outgoing) {
        let since = *outgoing.first_attempt.get_or_insert_with(Instant::now);
        let error = match self.client.send(&outgoing.call).await {
            Ok(()) => {
                self.pause = self.retry.first;
                return outgoing.confirm(Delivery::Accepted);
            }
            Err(error) => error,
        };
        if !error.is_transient() || since.elapsed() + self.pause > self.retry.total {
            log_lost(&outgoing, &error);
            return outgoing.confirm(Delivery::Lost);
        }
        tracing::debug!(reason = %error_chain(&error), "notification not delivered, trying again");
        self.waiting.push_again(outgoing);
        let _ = tokio::time::timeout(self.pause, self.retry_now.notified()).await;
        self.pause = (self.pause * 2).min(self.retry.interval);
        self.tidy_waiting();
    }

    fn receive_waiting(&mut self) {
        while let Ok(message) = self.received.try_recv() {
            self.waiting.push(message);
        }
    }

    fn tidy_waiting(&mut self) {
        self.receive_waiting();
        self.waiting.drop_superseded();
        for dropped in self.waiting.take_excess() {
            tracing::error!(
                kind_of = dropped.name(),
                "dropped a notification: virt-handler is away and too many wait"
            );
            dropped.confirm(Delivery::Lost);
        }
    }
}

fn log_lost(outgoing: &Outgoing, error: &SendError) {
    tracing::error!(reason = %error_chain(error), kind_of = outgoing.name(), "gave up a notification");
}

/// An error with its causes: tonic's own errors name the cause only there.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}
