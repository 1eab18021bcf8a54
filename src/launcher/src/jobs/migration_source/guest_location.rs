//! Asks both libvirt daemons where the guest is after a migrate call has broken off, until [`decide`] knows it.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DestroyMode, Domain, DomainState, JobType, Reason, State};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use crate::jobs::{JobConnection, JobContext};
use crate::libvirt_client::Connect;

/// The pause between two queries.
const QUERY_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of one query, after which the daemon is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for an answer of the target, where the wait is limited. Its daemon may be starting, too.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a log line says that the guest's location is still unknown.
const REMINDER_INTERVAL: Duration = Duration::from_secs(60);

/// The target's daemon, and the name of the domain there.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) uri: String,
    pub(super) domain: String,
}

/// The query about one migration.
pub(super) struct GuestLocationQuery<'a> {
    context: &'a JobContext,
    target: Target,
    /// Whether the guest was paused before the migration.
    was_paused: bool,
    /// Whether the monitor had suspended the guest, which libvirt reports in the same way as the switch.
    was_suspended: bool,
    source: BlockingQuery<libvirt::Result<SourceReply>>,
    target_state: BlockingQuery<libvirt::Result<Option<State>>>,
    /// The connection to the source's next daemon, once there is one.
    pub(super) connection: Option<JobConnection>,
}

/// The answer of the source's daemon, and its connection.
struct SourceReply {
    connection: Option<JobConnection>,
    view: SourceView,
}

impl<'a> GuestLocationQuery<'a> {
    pub(super) fn new(
        context: &'a JobContext,
        target: Target,
        was_paused: bool,
        was_suspended: bool,
    ) -> Self {
        GuestLocationQuery {
            context,
            target,
            was_paused,
            was_suspended,
            source: BlockingQuery::default(),
            target_state: BlockingQuery::default(),
            connection: None,
        }
    }

    /// Asks until the guest's location is known. There is no timeout, because a guest that may run on the target must
    /// neither be resumed nor ended here.
    pub(super) async fn run(&mut self) -> GuestLocation {
        let mut silent_since = None;
        let mut last_reminder = Instant::now();
        loop {
            if let Some(location) = self.attempt(&mut silent_since).await {
                return location;
            }
            if last_reminder.elapsed() >= REMINDER_INTERVAL {
                last_reminder = Instant::now();
                tracing::error!(
                    "libvirt's daemon died during a migration, and it is still unknown whether the target has the guest: \
                     the guest is neither resumed nor ended here"
                );
            }
            tokio::time::sleep(QUERY_INTERVAL).await;
        }
    }

    /// Asks both daemons once; `None` if the location is not known yet.
    async fn attempt(&mut self, silent_since: &mut Option<Instant>) -> Option<GuestLocation> {
        let view = self.ask_source().await?;
        let history = MigrationHistory {
            is_stopped_for_switch: self.context.job_events.is_stopped_for_switch()
                && !self.was_suspended,
            was_paused: self.was_paused,
        };
        let (absent, silent) = match decide(view, history) {
            NextStep::Wait => return None,
            NextStep::Known(location) => return Some(location),
            NextStep::AskTarget { absent, silent } => (absent, silent),
        };
        match self.ask_target().await {
            TargetView::HasGuest if view.state.is_down() => {
                self.context.report_guest_left().await;
                Some(GuestLocation::OnTarget)
            }
            TargetView::HasGuest => self
                .end_source_guest()
                .await
                .then_some(GuestLocation::OnTarget),
            TargetView::Absent if absent.is_some() => absent,
            TargetView::Absent | TargetView::Undecided => {
                let since = silent_since.get_or_insert_with(Instant::now);
                let location = silent.filter(|_| since.elapsed() >= SILENCE_TIMEOUT)?;
                if location == GuestLocation::OnTarget {
                    self.context.report_guest_left().await;
                }
                Some(location)
            }
        }
    }

    async fn ask_source(&mut self) -> Option<SourceView> {
        let (connect, name) = (
            Arc::clone(&self.context.connect),
            self.context.domain.clone(),
        );
        let connection = &mut self.connection;
        let query = || {
            let connection = connection.take();
            move || query_source(&connect, &name, connection)
        };
        match self.source.run(ANSWER_TIMEOUT, query).await? {
            Ok(reply) => {
                self.connection = reply.connection;
                Some(reply.view)
            }
            Err(error) => {
                tracing::debug!(reason = %error, "libvirt's daemon does not tell how the migration ended");
                None
            }
        }
    }

    async fn ask_target(&mut self) -> TargetView {
        let (connect, target) = (
            Arc::clone(&self.context.connect_target),
            self.target.clone(),
        );
        let query = || {
            move || match connect(&target.uri)?.lookup(&target.domain)? {
                Some(domain) => domain.state().map(Some),
                None => Ok(None),
            }
        };
        match self.target_state.run(ANSWER_TIMEOUT, query).await {
            Some(Ok(state)) => target_view(state),
            Some(Err(error)) => {
                tracing::debug!(reason = %error, "the target does not tell whether it has the guest");
                TargetView::Undecided
            }
            None => TargetView::Undecided,
        }
    }

    /// Ends the guest here, because the target has it. Returns false if that failed.
    async fn end_source_guest(&mut self) -> bool {
        let Some(connection) = &self.connection else {
            return false;
        };
        tracing::warn!("libvirt's daemon died when the guest was on the target: it ends here");
        self.context.report_guest_left().await;
        let domain = Arc::clone(&connection.domain);
        let mut destroy = BlockingQuery::default();
        let ended = destroy
            .run(ANSWER_TIMEOUT, || move || destroy_paused(&*domain))
            .await;
        if !matches!(ended, Some(Ok(true))) {
            tracing::error!(?ended, "the guest that has left stays paused");
        }
        matches!(ended, Some(Ok(true)))
    }
}

/// Destroys the domain if its guest is paused. Returns whether the domain is off. Blocking.
fn destroy_paused(domain: &dyn Domain) -> libvirt::Result<bool> {
    let state = domain.state()?;
    match state.state {
        DomainState::Paused => domain.destroy(DestroyMode::Forceful).map(|()| true),
        _ => Ok(state.is_down()),
    }
}

/// Asks the source's daemon, on `connection` if that is still open. Blocking.
fn query_source(
    connect: &Connect,
    name: &str,
    connection: Option<JobConnection>,
) -> libvirt::Result<SourceReply> {
    let open = connection.filter(|connection| connection.domain.is_connected());
    let connection = match open {
        Some(connection) => Some(connection),
        None => JobConnection::open(connect, name)?,
    };
    let Some(connection) = connection else {
        return Ok(SourceReply {
            connection: None,
            view: SourceView {
                state: State::new(DomainState::Shutoff, Reason::Unknown),
                has_job: false,
            },
        });
    };
    // libvirt answers this call only after the daemon's recovery. Before that, the state is still that of the daemon
    // that died: Paused/Migration for a guest that is about to be resumed.
    let has_job = match connection.domain.job_stats() {
        Ok(stats) => matches!(
            stats.job_type,
            JobType::Bounded | JobType::Unbounded | JobType::Other
        ),
        // The domain does not run.
        Err(error) if error.is_operation_invalid() => false,
        Err(error) => return Err(error),
    };
    let state = connection.domain.state()?;
    Ok(SourceReply {
        connection: Some(connection),
        view: SourceView { state, has_job },
    })
}

/// A query that is sent again only after the last one was answered, so that a daemon that never answers occupies one
/// thread.
pub(super) struct BlockingQuery<T>(Option<JoinHandle<T>>);

impl<T> Default for BlockingQuery<T> {
    fn default() -> Self {
        BlockingQuery(None)
    }
}

impl<T: Send + 'static> BlockingQuery<T> {
    /// Sends the query, unless an earlier one is unanswered. Returns the answer, which may be that of the earlier
    /// query; `None` if there is none within the timeout.
    pub(super) async fn run<Q>(&mut self, timeout: Duration, query: impl FnOnce() -> Q) -> Option<T>
    where
        Q: FnOnce() -> T + Send + 'static,
    {
        let running = self.0.get_or_insert_with(|| spawn_blocking(query()));
        let answer = tokio::time::timeout(timeout, running).await.ok()?;
        self.0 = None;
        answer.ok()
    }
}

// Decides where the guest is after libvirt's migrate call has broken off, because the daemon died or the connection
// was lost. Pure.
//
// libvirt's next daemon recovers first: it cancels a migration whose transfer was incomplete, and resumes the guest.
// After a complete transfer the target may run the guest, so the daemon leaves the guest paused, and only the target's
// daemon knows.
//
// ```text
//   [this daemon] ── job, post-copy ──▶ ask again
//        ├─ runs, ended before the switch ───────────────────▶ OnSource
//        ├─ Shutoff/Migrated ────────────────────────────────▶ OnTarget
//        ├─ post-copy failed ────────────────────────────────▶ Unknown: neither side has the whole guest
//        └─ stopped for the switch ──▶ [the target] ── has the guest ──▶ OnTarget
//                     ▲                     │
//                     └──── no answer ──────┘ as long as the guest is in memory here
// ```
// A guest that runs twice destroys its disks. The source therefore never resumes a guest that libvirt has stopped for
// the switch, and ends such a guest only after the target has confirmed that it has the guest.

/// Where the guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuestLocation {
    /// The guest is on the source, or has ended there.
    OnSource,
    /// The guest is on the target.
    OnTarget,
    /// The guest, or a part of its memory, may be on the target. It is never run here again.
    Unknown,
}

/// The answer of the source's daemon after its recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceView {
    pub(super) state: State,
    /// Whether libvirt runs a job.
    pub(super) has_job: bool,
}

/// What the launcher knows of the migration.
#[derive(Debug, Clone, Copy)]
pub(super) struct MigrationHistory {
    /// Whether libvirt had stopped the guest for the switch to the target.
    pub(super) is_stopped_for_switch: bool,
    /// Whether the guest was paused before the migration, so that libvirt did not stop it for the switch.
    pub(super) was_paused: bool,
}

/// The decision after the source's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// The location is known.
    Known(GuestLocation),
    /// The source is asked again.
    Wait,
    /// Only the target knows.
    AskTarget {
        /// The location if the target's daemon has no such domain; `None` to ask both sides again.
        absent: Option<GuestLocation>,
        /// The location if the target's daemon does not answer for some time; `None` to ask both sides again.
        silent: Option<GuestLocation>,
    },
}

/// The answer of the target's daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetView {
    /// The target has the guest: the guest runs there, or has ended there by itself.
    HasGuest,
    /// There is no such domain.
    Absent,
    /// The daemon gives no answer, or the domain still waits for the guest.
    Undecided,
}

/// Decides by the source's answer where the guest is, or what to ask next.
pub(super) fn decide(source: SourceView, history: MigrationHistory) -> NextStep {
    let State { state, reason } = source.state;
    match (state, reason) {
        (DomainState::Shutoff, Reason::Migrated) => NextStep::Known(GuestLocation::OnTarget),
        (DomainState::Paused, Reason::PostcopyFailed) => NextStep::Known(GuestLocation::Unknown),
        // The target runs the guest, and needs the rest of the memory from here. libvirt ends this side after that.
        (DomainState::Paused, Reason::Postcopy) => NextStep::Wait,
        // The guest has ended here, so it cannot run twice. A VM that runs on the target must not be reported as
        // crashed.
        _ if source.state.is_down() && history.is_stopped_for_switch => NextStep::AskTarget {
            absent: Some(GuestLocation::OnSource),
            silent: Some(GuestLocation::OnTarget),
        },
        _ if source.state.is_down() => NextStep::Known(GuestLocation::OnSource),
        _ if source.has_job => NextStep::Wait,
        // An absent domain decides nothing: the target may have run the guest, and have lost it since.
        (DomainState::Paused, Reason::Migration) => NextStep::AskTarget {
            absent: None,
            silent: None,
        },
        (DomainState::Paused, _) if history.was_paused => NextStep::AskTarget {
            absent: Some(GuestLocation::OnSource),
            silent: Some(GuestLocation::OnSource),
        },
        _ => NextStep::Known(GuestLocation::OnSource),
    }
}

/// The meaning of the state of the target's domain, `None` if there is none. A domain that waits for its guest is
/// removed by its daemon if the guest does not come, and is shut off for a moment before that.
pub(super) fn target_view(state: Option<State>) -> TargetView {
    let Some(view) = state else {
        return TargetView::Absent;
    };
    let State { state, reason } = view;
    let has_left = matches!(reason, Reason::Shutdown | Reason::Migrated);
    match state {
        DomainState::NoState | DomainState::Shutoff | DomainState::Crashed if !has_left => {
            TargetView::Undecided
        }
        _ if view.is_before_arrival() => TargetView::Undecided,
        _ => TargetView::HasGuest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_HISTORY: MigrationHistory = MigrationHistory {
        is_stopped_for_switch: false,
        was_paused: false,
    };

    fn after(
        state: DomainState,
        reason: Reason,
        has_job: bool,
        history: MigrationHistory,
    ) -> NextStep {
        let state = State::new(state, reason);
        decide(SourceView { state, has_job }, history)
    }

    #[test]
    fn guest_that_is_stopped_for_the_switch_is_decided_only_by_the_target() {
        let ask = NextStep::AskTarget {
            absent: None,
            silent: None,
        };
        for is_stopped_for_switch in [false, true] {
            let history = MigrationHistory {
                is_stopped_for_switch,
                ..NO_HISTORY
            };
            let stopped = |has_job| after(DomainState::Paused, Reason::Migration, has_job, history);
            assert_eq!(stopped(false), ask);
            assert_eq!(stopped(true), NextStep::Wait);
            let paused = |reason| after(DomainState::Paused, reason, true, history);
            assert_eq!(paused(Reason::Postcopy), NextStep::Wait);
            assert_eq!(
                paused(Reason::PostcopyFailed),
                NextStep::Known(GuestLocation::Unknown)
            );
        }
    }

    #[test]
    fn running_guest_is_on_the_source_and_a_migrated_one_on_the_target() {
        let known = |state, reason| after(state, reason, false, NO_HISTORY);
        let running = known(DomainState::Running, Reason::MigrationCanceled);
        assert_eq!(running, NextStep::Known(GuestLocation::OnSource));
        let moved = known(DomainState::Shutoff, Reason::Migrated);
        assert_eq!(moved, NextStep::Known(GuestLocation::OnTarget));
        let crashed = known(DomainState::Shutoff, Reason::Crashed);
        assert_eq!(crashed, NextStep::Known(GuestLocation::OnSource));
        let goes_on = after(DomainState::Running, Reason::Booted, true, NO_HISTORY);
        assert_eq!(goes_on, NextStep::Wait, "only the connection was lost");
    }

    #[test]
    fn guest_that_ends_after_the_switch_is_on_the_target_unless_that_has_no_domain() {
        let history = MigrationHistory {
            is_stopped_for_switch: true,
            ..NO_HISTORY
        };
        let expected = NextStep::AskTarget {
            absent: Some(GuestLocation::OnSource),
            silent: Some(GuestLocation::OnTarget),
        };
        let ended = after(DomainState::Shutoff, Reason::Crashed, false, history);
        assert_eq!(ended, expected);
    }

    #[test]
    fn guest_that_its_user_paused_is_on_the_source_unless_the_target_has_it() {
        let history = MigrationHistory {
            was_paused: true,
            ..NO_HISTORY
        };
        let expected = NextStep::AskTarget {
            absent: Some(GuestLocation::OnSource),
            silent: Some(GuestLocation::OnSource),
        };
        let paused = |history| after(DomainState::Paused, Reason::User, false, history);
        assert_eq!(paused(history), expected);
        assert_eq!(paused(NO_HISTORY), NextStep::Known(GuestLocation::OnSource));
    }

    #[test]
    fn target_that_waits_for_its_guest_is_undecided() {
        let view = |state, reason| target_view(Some(State::new(state, reason)));
        assert_eq!(target_view(None), TargetView::Absent);
        for reason in [Reason::Migration, Reason::StartingUp] {
            assert_eq!(view(DomainState::Paused, reason), TargetView::Undecided);
        }
        for reason in [Reason::Failed, Reason::Destroyed, Reason::Crashed] {
            assert_eq!(view(DomainState::Shutoff, reason), TargetView::Undecided);
        }
        assert_eq!(
            view(DomainState::Running, Reason::Migrated),
            TargetView::HasGuest
        );
        assert_eq!(
            view(DomainState::Paused, Reason::User),
            TargetView::HasGuest
        );
        assert_eq!(
            view(DomainState::Shutoff, Reason::Shutdown),
            TargetView::HasGuest
        );
    }
}
