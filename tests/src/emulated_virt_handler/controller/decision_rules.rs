//! The rules by which KubeVirt v1.9's virt-handler decides what to do about one VMI. Pure: no I/O.
//!
//! ```text
//! domain of another UID ─▶ CleanUpStale     migration, or starting up ─▶ Ignore
//! domain lives, VMI is to end ─▶ Shutdown, after the grace period Kill
//! domain is down, or the VMI final ─▶ Delete
//! phase and domain agree ─▶ Sync            else ─▶ Nothing (the phase follows the domain first)
//! ```

use std::time::Duration;

use super::grace_period::{RemainingGrace, remaining_grace};
use super::notified_domain::NotifiedDomain;

/// A VMI's phase, as far as virt-handler sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// virt-controller has created the pod. From here on virt-handler owns the VMI.
    Scheduled,
    /// The domain has been alive.
    Running,
    /// The VM has ended without an error.
    Succeeded,
    /// The VM has ended with an error.
    Failed,
}

impl Phase {
    /// Whether the VM is over.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

/// The fields of a VMI that the rules use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmiFacts {
    /// `metadata.uid`.
    pub uid: String,
    /// `status.phase`.
    pub phase: Phase,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace_period: Option<i64>,
}

/// The launcher's state, as virt-handler infers it from the command socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherState {
    /// There is no socket yet.
    NotInitialized,
    /// There is a socket.
    Responsive,
    /// The socket is gone, or nobody has listened on it for long.
    Unresponsive,
}

/// The next action of virt-handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Drop the cached domain, which belongs to another VMI, and reconcile again.
    CleanUpStale,
    /// Do nothing, not even write the status: a migration, a domain that is starting up, or an unreachable launcher.
    Ignore,
    /// Call `ShutdownVirtualMachine`, and repeat the call.
    Shutdown {
        /// The delay before the call is repeated.
        again_after: Duration,
    },
    /// Wait: the guest is already shutting down.
    AwaitShutdown,
    /// `KillVirtualMachine`.
    Kill,
    /// `DeleteVirtualMachine`, then the clean-up.
    Delete,
    /// `SyncVirtualMachine`.
    Sync,
    /// No command is sent; the status is written.
    Nothing,
}

/// Decides from the VMI (`None` if the cluster no longer has it) and the last notified domain.
pub fn decide(
    vmi: Option<&VmiFacts>,
    domain: Option<&NotifiedDomain>,
    launcher: LauncherState,
    now: i64,
) -> Decision {
    // A domain with a deletion timestamp is gone.
    let domain = domain.filter(|domain| !domain.deleted);
    if let (Some(vmi), Some(domain)) = (vmi, domain)
        && vmi.uid != domain.uid
    {
        return Decision::CleanUpStale;
    }
    if domain.is_some_and(|domain| domain.is("Shutoff", "Migrated")) {
        return Decision::Delete;
    }
    let deleting = vmi.is_some_and(|vmi| vmi.deleting);
    if !deleting && domain.is_some_and(NotifiedDomain::is_migrating) {
        return Decision::Ignore;
    }
    if domain.is_some_and(|domain| domain.status == "Unknown") {
        return Decision::Ignore;
    }
    let phase = vmi.map(|vmi| vmi.phase);
    let is_final = phase.is_some_and(Phase::is_final);
    let alive = domain.is_some_and(NotifiedDomain::is_alive);
    let is_marked_for_shutdown =
        domain.is_some_and(NotifiedDomain::is_marked_for_shutdown) && phase == Some(Phase::Running);
    let must_end = is_marked_for_shutdown || vmi.is_none() || deleting;
    if must_end && alive {
        return end(vmi, domain, now);
    }
    if domain.is_some_and(|domain| domain.is("Paused", "PostcopyFailed")) {
        return Decision::Kill;
    }
    let inactive = domain.is_some() && !alive && !is_final;
    if must_end || is_final || inactive {
        return Decision::Delete;
    }
    match vmi {
        Some(vmi) if vmi.phase == next_phase(vmi, domain, launcher) => Decision::Sync,
        _ => Decision::Nothing,
    }
}

/// Ends a domain that is alive: shuts it down while the grace period lasts, then kills it.
fn end(vmi: Option<&VmiFacts>, domain: Option<&NotifiedDomain>, now: i64) -> Decision {
    let domain_grace = domain.and_then(|domain| domain.grace.as_ref());
    if domain_grace.is_none_or(|grace| grace.seconds == 0) {
        return Decision::Kill;
    }
    let again_after = match remaining_grace(vmi.and_then(|vmi| vmi.grace_period), domain_grace, now)
    {
        RemainingGrace::None => return Decision::Kill,
        RemainingGrace::NotStarted => {
            let vmi_grace_period = vmi.and_then(|vmi| vmi.grace_period).unwrap_or(i64::MAX);
            vmi_grace_period.min(5)
        }
        RemainingGrace::Seconds(seconds) => seconds.min(5),
    };
    if domain.is_some_and(|domain| domain.status == "ShuttingDown") {
        return Decision::AwaitShutdown;
    }
    Decision::Shutdown {
        again_after: Duration::from_secs(again_after.unsigned_abs()),
    }
}

/// The phase that follows from the domain.
pub fn next_phase(
    vmi: &VmiFacts,
    domain: Option<&NotifiedDomain>,
    launcher: LauncherState,
) -> Phase {
    let Some(domain) = domain.filter(|domain| !domain.deleted) else {
        return match vmi.phase {
            Phase::Scheduled if launcher == LauncherState::Unresponsive => Phase::Failed,
            // A running domain disappeared without a notification of its end.
            Phase::Running => Phase::Failed,
            phase => phase,
        };
    };
    match (domain.status.as_str(), domain.reason.as_str()) {
        ("Shutoff" | "Crashed", "Crashed" | "Panicked") => Phase::Failed,
        // The domain is destroyed when the grace period is over. With a grace period of 0, destroying it was intended.
        ("Shutoff" | "Crashed", "Destroyed") if vmi.grace_period != Some(0) && domain.acpi => {
            Phase::Failed
        }
        ("Shutoff" | "Crashed", "Destroyed" | "Shutdown" | "Saved" | "FromSnapshot") => {
            Phase::Succeeded
        }
        ("Paused", "PostcopyFailed") => Phase::Failed,
        ("Paused" | "Running" | "Blocked" | "PMSuspended", _) => Phase::Running,
        _ => vmi.phase,
    }
}

/// Whether a Delete would remove a VM that was ended neither by the user, nor by the pod's end, nor by the guest.
pub fn is_early_delete(
    vmi: Option<&VmiFacts>,
    domain: Option<&NotifiedDomain>,
    launcher: LauncherState,
) -> bool {
    let Some(vmi) = vmi else {
        return false;
    };
    let migrated = domain.is_some_and(|domain| domain.is("Shutoff", "Migrated"));
    let is_marked_for_shutdown = domain.is_some_and(NotifiedDomain::is_marked_for_shutdown);
    let ended = vmi.phase.is_final() || next_phase(vmi, domain, launcher).is_final();
    !(vmi.deleting || migrated || is_marked_for_shutdown || ended)
}
