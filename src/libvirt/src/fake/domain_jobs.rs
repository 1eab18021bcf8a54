//! Memory dumps of a simulated domain, and the progress and abort of its jobs.

use std::time::Duration;

use super::domain_handle::FakeDomain;
use super::simulated_domain::SimulatedDomain;
use super::{Call, simulated_backup, simulated_memory_dump};
use crate::domain_jobs::{CompletedJob, JobStats, JobType, Jobs};
use crate::error::Result;

impl Jobs for FakeDomain {
    fn core_dump_memory(&self, path: &str) -> Result<()> {
        let failure = self.connection.daemon.record_call(Call::CoreDump);
        self.connection.must_be_open()?;
        simulated_memory_dump::run(&self.connection, &self.name, path, failure)
    }

    fn abort_job(&self) -> Result<()> {
        self.change(Call::AbortJob, |domain| {
            if domain.backup.is_some() {
                return Ok(domain.end_backup(JobType::Cancelled, Some(simulated_backup::CANCELLED)));
            }
            let aborted = match &mut domain.migration {
                Some(migration) => migration.abort(),
                None => simulated_memory_dump::refuse_abort(domain),
            };
            aborted.map(|()| Vec::new())
        })
    }

    fn job_stats(&self) -> Result<JobStats> {
        let recovers_job = |domain: &mut SimulatedDomain| domain.recovers_job;
        while self.connection.daemon.with_domain(&self.name, recovers_job) == Some(true) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.with_domain(Call::JobStats, |domain| {
            match (&domain.backup, &domain.migration) {
                (Some(backup), _) => Ok(backup.stats()),
                (None, Some(migration)) => Ok(migration.stats()),
                (None, None) => simulated_memory_dump::stats(domain),
            }
        })
    }

    fn completed_job(&self) -> Result<CompletedJob> {
        self.with_domain(Call::CompletedJob, |domain| {
            Ok(domain.completed_job.clone())
        })
    }
}
