//! A simulated domain's XML, and the removal of its definition.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::domain_handle::FakeDomain;
use super::errors::{domain_not_found, qemu_error};
use super::simulated_domain::SimulatedDomain;
use super::{Call, simulated_backup, simulated_memory_dump, simulated_migration};
use crate::domain::{
    Affect, Agent, BlockInfo, BlockSize, Blocks, Checkpoints, Definition, DestroyMode, Devices,
    DirtyRate, DiskFault, IoThreads, LaunchSecret, LaunchSecurity, LaunchSecurityInfo, Power,
    RebootMode, Screen, Screenshot, ShutdownMode, StartOptions, UndefineOptions, Vcpus, XmlKind,
};
use crate::domain_jobs::{CompletedJob, JobStats, JobType, Jobs, Migration, MigrationRequest};
use crate::error::{Result, code};
use crate::stats::DirtyRateStats;

impl Definition for FakeDomain {
    fn xml(&self, kind: XmlKind) -> Result<String> {
        self.with_domain(Call::Xml, |domain| {
            let text = match (kind, &domain.active, &domain.inactive) {
                (XmlKind::Active, Some(active), _) => {
                    active.render_active(domain.id, domain.agent.is_some())
                }
                (XmlKind::Migratable, Some(definition), _)
                | (_, _, Some(definition))
                | (_, Some(definition), None) => definition.render(),
                (_, None, None) => return Err(domain_not_found(&domain.name)),
            };
            Ok(text)
        })
    }

    fn undefine(&self, _options: UndefineOptions) -> Result<()> {
        self.change(Call::Undefine, SimulatedDomain::undefine)
    }
}

impl Power for FakeDomain {
    fn associate_fds(&self, group: &str, files: &[BorrowedFd<'_>]) -> Result<()> {
        self.with_domain(Call::AssociateFds, |domain| {
            domain.associated_fds.insert(group.to_owned(), files.len());
            Ok(())
        })
    }

    fn start(&self, options: StartOptions) -> Result<()> {
        let id = self.connection.daemon.next_number();
        self.change(Call::Start, |domain| domain.start(options, id))
    }

    fn suspend(&self) -> Result<()> {
        self.change(Call::Suspend, SimulatedDomain::suspend)
    }

    fn resume(&self) -> Result<()> {
        self.change(Call::Resume, SimulatedDomain::resume)
    }

    fn reset(&self) -> Result<()> {
        self.change(Call::Reset, SimulatedDomain::reset)
    }

    fn reboot(&self, mode: RebootMode) -> Result<()> {
        self.change(Call::Reboot, |domain| domain.reboot(mode))
    }

    fn shutdown(&self, mode: ShutdownMode) -> Result<()> {
        let obeys = !self
            .connection
            .daemon
            .controls(|controls| controls.ignores_shutdown);
        self.change(Call::Shutdown, |domain| domain.shutdown(mode, obeys))
    }

    fn destroy(&self, _mode: DestroyMode) -> Result<()> {
        self.change(Call::Destroy, SimulatedDomain::destroy)
    }
}

impl Devices for FakeDomain {
    fn attach_device(&self, xml: &str, to: Affect) -> Result<()> {
        self.change(Call::AttachDevice, |domain| domain.attach_device(xml, to))
    }

    fn detach_device(&self, xml: &str, from: Affect) -> Result<()> {
        self.change(Call::DetachDevice, |domain| domain.detach_device(xml, from))
    }

    fn update_device(&self, xml: &str, of: Affect) -> Result<()> {
        self.change(Call::UpdateDevice, |domain| domain.update_device(xml, of))
    }
}

impl Blocks for FakeDomain {
    fn block_infos(&self) -> Result<BTreeMap<String, BlockInfo>> {
        self.with_domain(Call::BlockInfo, |domain| Ok(domain.blocks.clone()))
    }

    fn disk_errors(&self) -> Result<BTreeMap<String, DiskFault>> {
        self.with_domain(Call::DiskErrors, |domain| {
            domain.must_run()?;
            Ok(domain.disk_errors.clone())
        })
    }

    fn resize_block(&self, disk: &str, to: BlockSize) -> Result<()> {
        self.with_domain(Call::ResizeBlock, |domain| {
            domain.must_run()?;
            domain.block(disk).map(|block| {
                block.capacity = match to {
                    BlockSize::Bytes(bytes) => bytes,
                    BlockSize::Device => block.physical,
                };
            })
        })
    }
}

impl Vcpus for FakeDomain {
    fn set_vcpus(&self, count: u32, of: Affect) -> Result<()> {
        self.with_domain(Call::SetVcpus, |domain| domain.set_vcpus(count, of))
    }

    fn pin_vcpu(&self, vcpu: u32, cpus: &[u32], _of: Affect) -> Result<()> {
        self.with_domain(Call::PinVcpu, |domain| domain.pin(Some(vcpu), cpus))
    }

    fn pin_emulator(&self, cpus: &[u32], _of: Affect) -> Result<()> {
        self.with_domain(Call::PinEmulator, |domain| domain.pin(None, cpus))
    }
}

impl IoThreads for FakeDomain {
    fn add_io_thread(&self, id: u32, to: Affect) -> Result<()> {
        self.with_domain(Call::AddIoThread, |domain| domain.add_io_thread(id, to))
    }
}

impl Agent for FakeDomain {
    fn agent_command(&self, json: &str, _timeout: Duration) -> Result<String> {
        let agent = self.with_domain(Call::Agent, |domain| domain.must_have_agent())?;
        agent(json)
    }

    fn set_agent_timeout(&self, _timeout: Duration) -> Result<()> {
        self.with_domain(Call::Agent, |domain| domain.must_have_agent().map(drop))
    }

    fn set_time(&self, now: Duration) -> Result<()> {
        let command = format!(
            r#"{{"execute":"guest-set-time","arguments":{{"time":{}}}}}"#,
            now.as_nanos()
        );
        self.agent_command(&command, Duration::ZERO).map(drop)
    }
}

impl Screen for FakeDomain {
    fn screenshot(&self, limit: usize) -> Result<Screenshot> {
        self.with_domain(Call::Screenshot, |domain| {
            domain.must_run()?;
            let screenshot = domain.screenshot.clone();
            let screenshot = screenshot.ok_or_else(|| {
                qemu_error(
                    code::INTERNAL_ERROR,
                    "internal error: no screen to take a screenshot of",
                )
            })?;
            if screenshot.data.len() > limit {
                let message = format!("operation failed: more than {limit} bytes were sent");
                return Err(qemu_error(code::OPERATION_FAILED, &message));
            }
            Ok(screenshot)
        })
    }
}

impl LaunchSecurity for FakeDomain {
    fn launch_security_info(&self) -> Result<LaunchSecurityInfo> {
        self.with_domain(Call::LaunchSecurity, |domain| {
            domain.must_run()?;
            let info = domain.launch_security.info.clone();
            // For a domain without launch security libvirt reports no values, and no error.
            Ok(info.unwrap_or_default())
        })
    }

    fn set_launch_secret(&self, secret: &LaunchSecret) -> Result<()> {
        self.with_domain(Call::LaunchSecurity, |domain| {
            domain.must_run()?;
            if domain.launch_security.info.is_none() {
                return Err(qemu_error(
                    code::OPERATION_UNSUPPORTED,
                    "Operation not supported: launch security type is not SEV",
                ));
            }
            domain.launch_security.secret = Some(secret.clone());
            Ok(())
        })
    }
}

impl DirtyRate for FakeDomain {
    fn start_dirty_rate_calculation(&self, period: Duration) -> Result<()> {
        self.with_domain(Call::StartDirtyRate, |domain| {
            domain.must_run()?;
            let last = &mut domain.dirty_rate.last;
            *last = DirtyRateStats {
                status: Some(DirtyRateStats::MEASURING),
                start: Some(last.start.unwrap_or(0) + 1),
                period: i32::try_from(period.as_secs()).ok(),
                mib_per_second: None,
            };
            Ok(())
        })
    }

    /// The first call after the start returns that the measurement is running, the next one its result.
    fn dirty_rate(&self) -> Result<Option<DirtyRateStats>> {
        self.with_domain(Call::DirtyRate, |domain| {
            let state = &mut domain.dirty_rate;
            let reported = state.last;
            if reported.status == Some(DirtyRateStats::MEASURING) {
                state.last.status = Some(DirtyRateStats::MEASURED);
                state.last.mib_per_second = Some(state.next_mib);
            }
            Ok(domain.active.is_some().then_some(reported))
        })
    }
}

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

impl Migration for FakeDomain {
    fn migrate(&self, destination: &str, request: &MigrationRequest) -> Result<()> {
        let failure = self.connection.daemon.record_call(Call::Migrate);
        self.connection.must_be_open()?;
        simulated_migration::run(&self.connection, &self.name, destination, request, failure)
    }

    fn set_max_downtime(&self, milliseconds: u64) -> Result<()> {
        self.with_domain(Call::SetMaxDowntime, |domain| {
            simulated_migration::running(domain)?.set_max_downtime(milliseconds)
        })?;
        self.connection
            .daemon
            .controls(|controls| controls.max_downtimes.push(milliseconds));
        Ok(())
    }

    fn start_post_copy(&self) -> Result<()> {
        self.change(Call::StartPostCopy, |domain| {
            simulated_migration::running(domain)?.start_post_copy()?;
            Ok(simulated_migration::switch_to_post_copy(domain))
        })
    }
}

impl Checkpoints for FakeDomain {
    fn begin_backup(&self, backup_xml: &str, checkpoint_xml: &str) -> Result<()> {
        self.connection.begin_call(Call::BeginBackup)?;
        simulated_backup::begin(&self.connection, &self.name, backup_xml, checkpoint_xml)
    }

    fn redefine_checkpoint(&self, xml: &str) -> Result<()> {
        self.with_domain(Call::RedefineCheckpoint, |domain| {
            simulated_backup::redefine_checkpoint(domain, xml)
        })
    }
}
