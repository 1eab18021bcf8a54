//! Supervised tasks, which run as long as the launcher.
//!
//! ```text
//!  [running] ──panics or returns──▶ restarted by its factory ───▶ [running]
//!      │                              └─third end within 60 s──▶ [failed]: the launcher ends with the reason
//!      └─dropped: aborted
//! ```
//! A factory starts from the current state each time: it takes a snapshot and subscribes again, and does not depend on
//! the state of the ended task.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// The failure of a task without which the launcher cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskFailure {
    /// A task keeps ending.
    #[error("the task {name} ended three times within a minute, last because {reason}")]
    KeepsEnding {
        /// The task's name.
        name: &'static str,
        /// How the task ended the last time.
        reason: String,
    },
    /// A task that cannot be started again has panicked.
    #[error("the task {name} cannot go on: {reason}")]
    Panicked {
        /// The task's name.
        name: &'static str,
        /// The panic.
        reason: String,
    },
}

/// Keeps tasks running. Dropping the supervisor aborts them.
#[derive(Debug)]
pub struct Supervisor {
    supervisions: Vec<AbortOnDropHandle<()>>,
    failure_sender: mpsc::UnboundedSender<TaskFailure>,
    failure_receiver: mpsc::UnboundedReceiver<TaskFailure>,
}

impl Default for Supervisor {
    fn default() -> Self {
        let (failure_sender, failure_receiver) = mpsc::unbounded_channel();
        Supervisor {
            supervisions: Vec::new(),
            failure_sender,
            failure_receiver,
        }
    }
}

impl Supervisor {
    /// Starts the task that `factory` creates, and a new one whenever it ends.
    pub fn spawn<F, T>(&mut self, name: &'static str, factory: F)
    where
        F: FnMut() -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let failure_sender = self.failure_sender.clone();
        let supervision = tokio::spawn(supervise(name, factory, failure_sender));
        self.supervisions.push(AbortOnDropHandle::new(supervision));
    }

    /// Starts a task whose state cannot be made again. It may return; a panic in it is a failure.
    pub fn spawn_once(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let failure_sender = self.failure_sender.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(task));
        let supervision = tokio::spawn(async move {
            if let Err(error) = task.await {
                let reason = panic_message(error);
                let _ = failure_sender.send(TaskFailure::Panicked { name, reason });
            }
        });
        self.supervisions.push(AbortOnDropHandle::new(supervision));
    }

    /// Waits until a task is given up; for ever if none is.
    pub async fn failure(&mut self) -> TaskFailure {
        match self.failure_receiver.recv().await {
            Some(failure) => failure,
            // Unreachable: this supervisor holds a sender.
            None => std::future::pending().await,
        }
    }

    /// Aborts all tasks, when the launcher ends.
    pub fn abort(&self) {
        for supervision in &self.supervisions {
            supervision.abort();
        }
    }
}

async fn supervise<F, T>(
    name: &'static str,
    mut factory: F,
    failure_sender: mpsc::UnboundedSender<TaskFailure>,
) where
    F: FnMut() -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let mut policy = RestartPolicy::default();
    loop {
        // A task of its own, so that a panic ends only this instance.
        let task = AbortOnDropHandle::new(tokio::spawn(factory()));
        let reason = match task.await {
            Ok(()) => "it returned".to_owned(),
            Err(error) => panic_message(error),
        };
        match policy.observe_end(Instant::now()) {
            RestartDecision::Restart => {
                tracing::error!(task = name, reason, "a task ended and is started again");
            }
            RestartDecision::GiveUp => {
                let _ = failure_sender.send(TaskFailure::KeepsEnding { name, reason });
                return;
            }
        }
    }
}

/// How a task ended that did not return.
pub(crate) fn panic_message(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "it was cancelled".to_owned();
    };
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("without a message"))
}

/// After this many ends within [`ENDS_WINDOW`], the task is given up.
const MAX_ENDS_IN_WINDOW: usize = 3;
const ENDS_WINDOW: Duration = Duration::from_secs(60);

/// The decision after a task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestartDecision {
    /// Restart the task.
    Restart,
    /// Give the task up, because it keeps ending.
    GiveUp,
}

/// The ends of one task.
#[derive(Debug, Default)]
struct RestartPolicy {
    ends: VecDeque<Instant>,
}

impl RestartPolicy {
    /// Takes in that the task has ended.
    fn observe_end(&mut self, now: Instant) -> RestartDecision {
        self.ends.push_back(now);
        while self
            .ends
            .front()
            .is_some_and(|end| now.duration_since(*end) > ENDS_WINDOW)
        {
            self.ends.pop_front();
        }
        if self.ends.len() >= MAX_ENDS_IN_WINDOW {
            RestartDecision::GiveUp
        } else {
            RestartDecision::Restart
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn task_that_panics_once_is_restarted() {
        let starts = Arc::new(AtomicUsize::new(0));
        let mut supervisor = Supervisor::default();
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let counted = Arc::clone(&starts);
        supervisor.spawn("observer", move || {
            let (start, sender) = (counted.fetch_add(1, Ordering::SeqCst), sender.clone());
            async move {
                assert!(start > 0, "the first time");
                sender.send(start).unwrap();
                std::future::pending().await
            }
        });
        assert_eq!(receiver.recv().await, Some(1));
        let failure = tokio::time::timeout(Duration::from_millis(50), supervisor.failure());
        assert!(failure.await.is_err(), "it runs");
    }

    #[tokio::test]
    async fn task_that_keeps_ending_fails_with_its_reason() {
        let mut supervisor = Supervisor::default();
        supervisor.spawn("steady", std::future::pending);
        supervisor.spawn("notifier", || async { panic!("no {}", "socket") });
        let failure = supervisor.failure().await;
        let (name, reason) = ("notifier", "it panicked: no socket".to_owned());
        assert_eq!(failure, TaskFailure::KeepsEnding { name, reason });

        let mut supervisor = Supervisor::default();
        supervisor.spawn("credentials", || async {});
        let (name, reason) = ("credentials", "it returned".to_owned());
        assert_eq!(
            supervisor.failure().await,
            TaskFailure::KeepsEnding { name, reason }
        );
    }

    #[tokio::test]
    async fn task_that_cannot_be_restarted_may_return_and_not_panic() {
        let mut supervisor = Supervisor::default();
        supervisor.spawn_once("returns", async {});
        supervisor.spawn_once("commands", async { panic!("no {}", "domain") });
        let (name, reason) = ("commands", "it panicked: no domain".to_owned());
        assert_eq!(
            supervisor.failure().await,
            TaskFailure::Panicked { name, reason }
        );
    }

    #[tokio::test]
    async fn dropping_the_supervisor_ends_its_tasks() {
        let mut supervisor = Supervisor::default();
        let (held, mut released) = mpsc::unbounded_channel::<()>();
        supervisor.spawn("watch", move || {
            let held = held.clone();
            async move {
                let _held = held;
                std::future::pending().await
            }
        });
        tokio::task::yield_now().await;
        drop(supervisor);
        assert_eq!(released.recv().await, None);
    }

    fn decisions(seconds: &[u64]) -> Vec<RestartDecision> {
        let begin = Instant::now();
        let mut policy = RestartPolicy::default();
        let at = |second: &u64| policy.observe_end(begin + Duration::from_secs(*second));
        seconds.iter().map(at).collect()
    }

    #[test]
    fn task_is_given_up_after_its_third_end_within_a_minute() {
        use RestartDecision::{GiveUp, Restart};
        assert_eq!(decisions(&[0, 0, 0]), [Restart, Restart, GiveUp]);
        assert_eq!(decisions(&[0, 30, 60]), [Restart, Restart, GiveUp]);
        assert_eq!(decisions(&[0, 30, 61]), [Restart; 3]);
        assert_eq!(
            decisions(&[0, 100, 200, 259, 260]),
            [Restart, Restart, Restart, Restart, GiveUp]
        );
    }
}
