//! Asks both daemons how a migration ended whose call has broken off, until [`decide`] knows.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DestroyMode, Domain, DomainState, JobType, Reason, State};
use tokio::time::Instant;

use super::blocking_query::BlockingQuery;
use super::decide_guest_location::{
    GuestLocation, History, NextStep, SourceView, TargetView, decide, target_view,
};
use crate::jobs::{JobConnection, JobContext};
use crate::libvirt_client::Connect;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// A daemon that takes longer is asked again.
const ANSWER: Duration = Duration::from_secs(5);
/// The target has this long to answer, where that is limited: its daemon may be starting, too.
const SILENCE: Duration = Duration::from_secs(10);
/// Between two log lines about an outcome that stays unknown.
const REMINDER: Duration = Duration::from_secs(60);

/// The target's daemon, and the domain's name there.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) uri: String,
    pub(super) domain: String,
}

/// One inquiry.
pub(super) struct GuestLocationQuery<'a> {
    context: &'a JobContext,
    target: Target,
    /// The guest was paused before the migration.
    was_paused: bool,
    /// The monitor had suspended the guest, of which libvirt tells in the words of the switch.
    was_suspended: bool,
    source: BlockingQuery<libvirt::Result<SourceReply>>,
    target_state: BlockingQuery<libvirt::Result<Option<State>>>,
    /// The next daemon's connection, once there is one.
    pub(super) connection: Option<JobConnection>,
}

/// The source's answer, and the connection that it came by.
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

    /// Asks until the outcome is known, without a limit: a guest that may run on the target is neither resumed nor ended.
    pub(super) async fn run(&mut self) -> GuestLocation {
        let mut silent_since = None;
        let mut reminded = Instant::now();
        loop {
            if let Some(outcome) = self.attempt(&mut silent_since).await {
                return outcome;
            }
            if reminded.elapsed() >= REMINDER {
                reminded = Instant::now();
                tracing::error!(
                    "libvirt's daemon died during a migration, and it is still unknown whether the target has the guest: \
                     the guest is neither resumed nor ended here"
                );
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn attempt(&mut self, silent_since: &mut Option<Instant>) -> Option<GuestLocation> {
        let view = self.ask_source().await?;
        let history = History {
            is_handed_over: self.context.job_events.is_handed_over() && !self.was_suspended,
            was_paused: self.was_paused,
        };
        let (absent, silent) = match decide(view, history) {
            NextStep::Wait => return None,
            NextStep::Known(outcome) => return Some(outcome),
            NextStep::AskTarget { absent, silent } => (absent, silent),
        };
        match self.ask_target().await {
            TargetView::Has if view.state.is_down() => {
                self.context.report_departure().await;
                Some(GuestLocation::OnTarget)
            }
            TargetView::Has => self.leave().await.then_some(GuestLocation::OnTarget),
            TargetView::Absent if absent.is_some() => absent,
            TargetView::Absent | TargetView::Undecided => {
                let since = silent_since.get_or_insert_with(Instant::now);
                let outcome = silent.filter(|_| since.elapsed() >= SILENCE)?;
                if outcome == GuestLocation::OnTarget {
                    self.context.report_departure().await;
                }
                Some(outcome)
            }
        }
    }

    async fn ask_source(&mut self) -> Option<SourceView> {
        let (connect, name) = (
            Arc::clone(&self.context.connect),
            self.context.domain.clone(),
        );
        let held = &mut self.connection;
        let ask = || {
            let held = held.take();
            move || observe(&connect, &name, held)
        };
        match self.source.ask(ANSWER, ask).await? {
            Ok(observed) => {
                self.connection = observed.connection;
                Some(observed.view)
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
        let ask = || {
            move || match connect(&target.uri)?.lookup(&target.domain)? {
                Some(domain) => domain.state().map(Some),
                None => Ok(None),
            }
        };
        match self.target_state.ask(ANSWER, ask).await {
            Some(Ok(state)) => target_view(state),
            Some(Err(error)) => {
                tracing::debug!(reason = %error, "the target does not tell whether it has the guest");
                TargetView::Undecided
            }
            None => TargetView::Undecided,
        }
    }

    /// Ends the guest here, which the target has; false if that failed.
    async fn leave(&mut self) -> bool {
        let Some(connection) = &self.connection else {
            return false;
        };
        tracing::warn!("libvirt's daemon died when the guest was on the target: it ends here");
        self.context.report_departure().await;
        let domain = Arc::clone(&connection.domain);
        let mut ending = BlockingQuery::default();
        let ended = ending.ask(ANSWER, || move || end_paused(&*domain)).await;
        if !matches!(ended, Some(Ok(true))) {
            tracing::error!(?ended, "the guest that has left stays paused");
        }
        matches!(ended, Some(Ok(true)))
    }
}

/// Ends a guest that does not run. Blocking.
fn end_paused(domain: &dyn Domain) -> libvirt::Result<bool> {
    let state = domain.state()?;
    match state.state {
        DomainState::Paused => domain.destroy(DestroyMode::Forceful).map(|()| true),
        _ => Ok(state.is_down()),
    }
}

/// Asks the source's daemon. Blocking.
fn observe(
    connect: &Connect,
    name: &str,
    held: Option<JobConnection>,
) -> libvirt::Result<SourceReply> {
    let held = held.filter(|connection| connection.domain.is_connected());
    let opened = match held {
        Some(connection) => Some(connection),
        None => JobConnection::open(connect, name)?,
    };
    let Some(connection) = opened else {
        return Ok(SourceReply {
            connection: None,
            view: SourceView {
                state: State::new(DomainState::Shutoff, Reason::Unknown),
                has_job: false,
            },
        });
    };
    // libvirt answers this when the daemon's recovery has ended, and not before. The state alone would be that of the
    // daemon that died: Paused/Migration for a guest that is about to be resumed.
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
