//! The end of a failed migration: finds out where the guest is, and restores the VM if it is here.

use std::sync::Arc;

use libvirt::{DomainState, Reason, State};

use super::super::guest_location_decision::GuestLocation;
use super::super::guest_location_query::GuestLocationQuery;
use super::super::monitor_calls;
use super::super::sriov_detach_and_reattach;
use super::{CALL_TIMEOUT, MigrationControl, SourceMigration, wait_for_cancel};
use crate::blocking;
use crate::jobs::{AbortReason, JobError, wait_for_abort};

impl SourceMigration<'_> {
    /// Finds out where the guest is after an error of libvirt's call. The error may only mean that the connection was
    /// lost while the migration continued; and once post-copy has begun, the guest cannot return.
    pub(super) async fn find_guest(
        &mut self,
        error: &JobError,
        control: &mut MigrationControl,
    ) -> GuestLocation {
        let is_call_broken_off =
            !self.connection.domain.is_connected() || matches!(error, JobError::Internal);
        if !is_call_broken_off {
            let state = monitor_calls::state(&self.connection.domain).await;
            let is_left =
                |state: State| state.may_run_on_target() && !state.is_stopped_for_migration();
            if state.is_ok_and(|state| !is_left(state)) {
                return GuestLocation::OnSource;
            }
        }
        if self.abort_reason_of_vm.is_some() {
            return GuestLocation::Unknown;
        }
        self.record.fail_pending_abort();
        self.record.accept_aborts();
        let target = self.target();
        let mut query =
            GuestLocationQuery::new(self.context, target, self.was_paused, self.was_suspended);
        let location = {
            let querying = query.run();
            tokio::pin!(querying);
            loop {
                tokio::select! {
                    biased;
                    location = &mut querying => break location,
                    reason = wait_for_abort(&mut control.aborted) => {
                        self.abort_reason_of_vm = Some(reason);
                        break GuestLocation::Unknown;
                    }
                    // libvirt has no job that could be aborted.
                    () = wait_for_cancel(&mut control.cancelled) => self.record.fail_abort(),
                }
            }
        };
        if let Some(connection) = query.connection {
            self.connection = connection;
        }
        self.record.ignore_aborts();
        // An abort that was requested meanwhile came too late.
        self.record.fail_pending_abort();
        location
    }

    /// Adds the reason from libvirt's log to an error about a lost connection. If the launcher's own connection is
    /// still open, the lost one is the daemon's connection to the target, and the migration had failed before.
    pub(super) async fn explain(&self, error: JobError) -> JobError {
        match error {
            JobError::Libvirt(error)
                if error.is_unsent() && self.connection.domain.is_connected() =>
            {
                match self.context.migration.log.first_error().await {
                    Some(reason) => JobError::TargetLost { error, reason },
                    None => error.into(),
                }
            }
            other => other,
        }
    }

    /// Brings the VM back to its state before the migration: resumes the guest if libvirt could not, and attaches the
    /// SR-IOV interfaces again.
    pub(super) async fn restore(&self) {
        if matches!(
            self.abort_reason_of_vm,
            Some(AbortReason::Kill | AbortReason::Exit)
        ) {
            return;
        }
        // libvirt reports ApiError if it failed to resume the guest, and User if it paused the guest for the monitor
        // when its job of the migration had ended. The VM's owner cannot pause a guest that migrates.
        let is_stopped = |state: State| {
            let is_paused = |reason| state == State::new(DomainState::Paused, reason);
            state.is_stopped_for_migration()
                || is_paused(Reason::ApiError)
                || (self.was_suspended && is_paused(Reason::User))
        };
        let state = monitor_calls::state(&self.connection.domain).await;
        let is_stopped = state.is_ok_and(is_stopped);
        if !self.was_paused && (is_stopped || self.is_suspend_unanswered) {
            self.resume(is_stopped).await;
        }
        sriov_detach_and_reattach::attach(&self.connection.domain, &self.detached).await;
    }

    /// Resumes the guest. libvirt carries out one request after the other: if it has yet to pause the guest, it resumes
    /// the guest after that.
    async fn resume(&self, is_stopped: bool) {
        let domain = Arc::clone(&self.connection.domain);
        let resume = move || domain.resume();
        match blocking::call("resuming the guest", CALL_TIMEOUT, resume).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.is_operation_invalid() && !is_stopped => {}
            resumed => tracing::error!(
                ?resumed,
                "the guest stays paused after the migration failed"
            ),
        }
    }
}
