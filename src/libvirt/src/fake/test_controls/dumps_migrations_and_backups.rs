//! How a test plans and fails memory dumps, outgoing migrations and backups.

use std::time::Duration;

use super::FakeDaemon;
use crate::domain_jobs::JobType;
use crate::error::Error;
use crate::fake::migration_plan_and_record::{MigrationPlan, SentMigration};
use crate::fake::simulated_domain::SimulatedDomain;

impl FakeDaemon {
    /// Sets how long a memory dump takes. By default it ends at once.
    pub fn set_dump_duration(&self, duration: Duration) {
        self.daemon
            .controls(|controls| controls.dump_duration = duration);
    }

    /// Makes the running memory dump fail, as when its disk is full or the process that writes it dies.
    ///
    /// # Panics
    /// If no memory dump of the domain runs.
    pub fn fail_dump(&self, domain: &str, error: Error) {
        let fail = |domain: &mut SimulatedDomain| {
            let dump = domain.dump.as_mut()?;
            dump.failure = Some(error);
            Some(())
        };
        let failed = self.daemon.with_domain(domain, fail).flatten();
        assert!(failed.is_some(), "no memory dump of {domain} runs");
    }

    /// Sets the course of all further migrations.
    pub fn set_migration(&self, plan: MigrationPlan) {
        self.daemon
            .controls(|controls| controls.migration_plan = plan);
    }

    /// Makes the running migration fail, as when its target disappears. The first failure counts.
    ///
    /// # Panics
    /// If no migration of the domain runs.
    pub fn fail_migration(&self, domain: &str, error: Error) {
        let fail = |domain: &mut SimulatedDomain| {
            let migration = domain.migration.as_mut()?;
            migration.failure.get_or_insert(error);
            Some(())
        };
        let failed = self.daemon.with_domain(domain, fail).flatten();
        assert!(failed.is_some(), "no migration of {domain} runs");
    }

    /// Whether an outgoing migration of the domain runs.
    pub fn is_migrating(&self, domain: &str) -> bool {
        let has_migration = |domain: &mut SimulatedDomain| domain.migration.is_some();
        self.daemon.with_domain(domain, has_migration) == Some(true)
    }

    /// The requested migrations, in order.
    pub fn migrations(&self) -> Vec<SentMigration> {
        self.daemon
            .controls(|controls| controls.sent_migrations.clone())
    }

    /// The maximum downtimes that were set, in milliseconds.
    pub fn max_downtimes(&self) -> Vec<u64> {
        self.daemon
            .controls(|controls| controls.max_downtimes.clone())
    }

    /// Sets how long a backup in push mode takes. By default it ends at once.
    pub fn set_backup_duration(&self, duration: Duration) {
        self.daemon
            .controls(|controls| controls.backup_duration = duration);
    }

    /// Makes the running backup fail, as when its disk is full.
    pub fn fail_backup(&self, domain: &str, error: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.end_backup(JobType::Failed, Some(error))
        });
    }

    /// Completes an abort that [`MigrationPlan::abort_hangs`] holds up.
    pub fn finish_hung_abort(&self, domain: &str) {
        self.daemon.with_domain(domain, |domain| {
            if let Some(migration) = &mut domain.migration {
                migration.plan.abort_hangs = false;
            }
        });
    }

    /// Makes the source pause the guest for the switchover.
    pub fn pause_for_switchover(&self, domain: &str) {
        let _ = self
            .daemon
            .change(domain, |domain| Ok(domain.pause_for_migration()));
    }
}
