//! Where the guest is after libvirt's call has broken off, because the daemon died or the connection did. Pure.
//!
//! libvirt's next daemon recovers first: it cancels a migration whose transfer was incomplete, and resumes the guest. After
//! a complete transfer the target may run the guest, so the daemon leaves the guest paused, and only the target knows.
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
//! A guest that runs twice destroys its disks, so the source never resumes a guest that libvirt has stopped for the switch;
//! it ends such a guest only when the target has confirmed that it has it.

use libvirt::{DomainState, Reason, State};

/// Where the guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuestLocation {
    /// It is the source's, also if it has ended here.
    OnSource,
    /// It is the target's.
    OnTarget,
    /// The target has it, or a part of it, or may have it: it never runs here again.
    Unknown,
}

/// What the source's daemon says after its recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceView {
    pub(super) state: State,
    /// A job of libvirt's runs.
    pub(super) has_job: bool,
}

/// What is known of the migration apart from libvirt's answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct History {
    /// libvirt had stopped the guest for the switch to the target.
    pub(super) is_handed_over: bool,
    /// The guest was paused before, so that libvirt did not stop it for the switch.
    pub(super) was_paused: bool,
}

/// What follows from the source's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// The outcome is known.
    Known(GuestLocation),
    /// The source is asked again.
    Wait,
    /// Only the target knows. What follows if its daemon has no such domain, and if it does not answer for some time;
    /// `None`: both are asked again.
    AskTarget {
        absent: Option<GuestLocation>,
        silent: Option<GuestLocation>,
    },
}

/// What the target's daemon says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetView {
    /// It has the guest: the guest runs there, or has ended there by itself.
    Has,
    /// There is no such domain.
    Absent,
    /// It cannot be asked, or waits for the guest.
    Undecided,
}

/// What follows from the source's answer.
pub(super) fn decide(source: SourceView, history: History) -> NextStep {
    let State { state, reason } = source.state;
    match (state, reason) {
        (DomainState::Shutoff, Reason::Migrated) => NextStep::Known(GuestLocation::OnTarget),
        (DomainState::Paused, Reason::PostcopyFailed) => NextStep::Known(GuestLocation::Unknown),
        // The target runs the guest, and needs the rest of the memory from here; libvirt ends this side.
        (DomainState::Paused, Reason::Postcopy) => NextStep::Wait,
        // Nothing is left to protect here. A VM that runs on the target must not be reported as lost.
        _ if source.state.is_down() && history.is_handed_over => NextStep::AskTarget {
            absent: Some(GuestLocation::OnSource),
            silent: Some(GuestLocation::OnTarget),
        },
        _ if source.state.is_down() => NextStep::Known(GuestLocation::OnSource),
        _ if source.has_job => NextStep::Wait,
        // The target may also have run the guest, and have lost it since.
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

/// What the state of the target's domain says. A domain that waits for the guest is removed by its daemon if the guest
/// does not come, and is down for a moment before.
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
        _ if view.waits_for_guest() => TargetView::Undecided,
        _ => TargetView::Has,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_HISTORY: History = History {
        is_handed_over: false,
        was_paused: false,
    };

    fn after(state: DomainState, reason: Reason, has_job: bool, history: History) -> NextStep {
        let state = State::new(state, reason);
        decide(SourceView { state, has_job }, history)
    }

    #[test]
    fn source_ends_or_keeps_a_stopped_guest_only_by_the_targets_word() {
        let ask = NextStep::AskTarget {
            absent: None,
            silent: None,
        };
        for is_handed_over in [false, true] {
            let history = History {
                is_handed_over,
                ..NO_HISTORY
            };
            let stopped = |has_job| after(DomainState::Paused, Reason::Migration, has_job, history);
            assert_eq!(stopped(false), ask);
            assert_eq!(stopped(true), NextStep::Wait);
            let of = |reason| after(DomainState::Paused, reason, true, history);
            assert_eq!(of(Reason::Postcopy), NextStep::Wait);
            assert_eq!(
                of(Reason::PostcopyFailed),
                NextStep::Known(GuestLocation::Unknown)
            );
        }
    }

    #[test]
    fn guest_that_runs_stays_and_one_that_libvirt_has_moved_is_gone() {
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
    fn end_after_the_switch_is_the_targets_unless_that_has_no_domain() {
        let history = History {
            is_handed_over: true,
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
    fn users_pause_is_kept_unless_the_target_has_the_guest() {
        let history = History {
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
    fn domain_that_waits_for_its_guest_does_not_have_it() {
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
            TargetView::Has
        );
        assert_eq!(view(DomainState::Paused, Reason::User), TargetView::Has);
        assert_eq!(
            view(DomainState::Shutoff, Reason::Shutdown),
            TargetView::Has
        );
    }
}
