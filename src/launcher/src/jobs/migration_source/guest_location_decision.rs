//! Decides where the guest is after libvirt's migrate call has broken off, because the daemon died or the connection
//! was lost. Pure.
//!
//! libvirt's next daemon recovers first: it cancels a migration whose transfer was incomplete, and resumes the guest.
//! After a complete transfer the target may run the guest, so the daemon leaves the guest paused, and only the target's
//! daemon knows.
//!
//! ```text
//!   [this daemon] ── job, post-copy ──▶ ask again
//!        ├─ runs, ended before the switch ───────────────────▶ OnSource
//!        ├─ Shutoff/Migrated ────────────────────────────────▶ OnTarget
//!        ├─ post-copy failed ────────────────────────────────▶ Unknown: neither side has the whole guest
//!        └─ stopped for the switch ──▶ [the target] ── has the guest ──▶ OnTarget
//!                     ▲                     │
//!                     └──── no answer ──────┘ as long as the guest is in memory here
//! ```
//! A guest that runs twice destroys its disks. The source therefore never resumes a guest that libvirt has stopped for
//! the switch, and ends such a guest only after the target has confirmed that it has the guest.

use libvirt::{DomainState, Reason, State};

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
