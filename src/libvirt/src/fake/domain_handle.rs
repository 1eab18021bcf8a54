//! A handle to a domain of the fake daemon.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::Call;
use super::daemon::no_domain;
use super::fake_connection::FakeConnection;
use super::simulated_domain::SimulatedDomain;
use super::simulated_migration;
use super::{qemu_monitor, simulated_backup, simulated_memory_dump};
use crate::backups_and_checkpoints::Checkpoints;
use crate::devices::{Affect, Devices};
use crate::disks::{BlockInfo, BlockSize, Blocks, DiskFault};
use crate::domain::Domain;
use crate::domain_definition::{Definition, UndefineOptions, XmlKind};
use crate::domain_jobs::{CompletedJob, JobStats, JobType, Jobs};
use crate::domain_state::State;
use crate::error::Result;
use crate::event::Event;
use crate::guest_agent::Agent;
use crate::migration::{Migration, MigrationRequest};
use crate::qemu_monitor::QemuMonitor;
use crate::start_pause_stop::{DestroyMode, Power, RebootMode, ShutdownMode, StartOptions};
use crate::stats::DomainStats;
use crate::vcpus::Vcpus;

pub(super) struct FakeDomain {
    connection: FakeConnection,
    name: String,
    uuid: String,
}

impl FakeDomain {
    pub(super) fn new(connection: FakeConnection, name: String, uuid: String) -> Self {
        FakeDomain {
            connection,
            name,
            uuid,
        }
    }

    pub(super) fn with_domain<T>(
        &self,
        call: Call,
        with: impl FnOnce(&mut SimulatedDomain) -> Result<T>,
    ) -> Result<T> {
        self.connection.begin_call(call)?;
        let result = self.connection.daemon.with_domain(&self.name, with);
        result.ok_or_else(|| no_domain(&self.name))?
    }

    fn change(
        &self,
        call: Call,
        change: impl FnOnce(&mut SimulatedDomain) -> Result<Vec<Event>>,
    ) -> Result<()> {
        self.connection.begin_call(call)?;
        self.connection.daemon.change(&self.name, change)
    }
}

impl Domain for FakeDomain {
    fn name(&self) -> &str {
        &self.name
    }

    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn is_connected(&self) -> bool {
        self.connection.is_open()
    }

    fn state(&self) -> Result<State> {
        self.with_domain(Call::State, |domain| Ok(domain.state))
    }

    fn stats(&self) -> Result<Option<DomainStats>> {
        self.with_domain(Call::Stats, |domain| {
            Ok(domain.is_active().then(|| DomainStats {
                name: domain.name.clone(),
                uuid: domain.uuid.clone(),
                ..domain.stats.clone()
            }))
        })
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
                None => simulated_memory_dump::abort(domain),
            };
            aborted.map(|()| Vec::new())
        })
    }

    fn job_stats(&self) -> Result<JobStats> {
        let recovers = |domain: &mut SimulatedDomain| domain.recovers;
        while self.connection.daemon.with_domain(&self.name, recovers) == Some(true) {
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
            simulated_migration::of(domain)?.set_max_downtime(milliseconds)
        })?;
        self.connection
            .daemon
            .controls(|controls| controls.max_downtimes.push(milliseconds));
        Ok(())
    }

    fn start_post_copy(&self) -> Result<()> {
        self.change(Call::StartPostCopy, |domain| {
            simulated_migration::of(domain)?.start_post_copy()?;
            Ok(simulated_migration::post_copy_began(domain))
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

impl QemuMonitor for FakeDomain {
    fn qemu_command(&self, command: &str) -> Result<String> {
        self.with_domain(Call::QemuCommand, |domain| {
            qemu_monitor::answer(domain, command)
        })
    }
}

impl Power for FakeDomain {
    fn associate_fds(&self, group: &str, files: &[BorrowedFd<'_>]) -> Result<()> {
        self.with_domain(Call::AssociateFds, |domain| {
            domain.associated_fds.insert(group.to_owned(), files.len());
            Ok(())
        })
    }

    fn start(&self, how: StartOptions) -> Result<()> {
        let id = self.connection.daemon.next_number();
        self.change(Call::Start, |domain| domain.start(how, id))
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

    fn reboot(&self, by: RebootMode) -> Result<()> {
        self.change(Call::Reboot, |domain| domain.reboot(by))
    }

    fn shutdown(&self, by: ShutdownMode) -> Result<()> {
        let obey = !self
            .connection
            .daemon
            .controls(|controls| controls.disobedient);
        self.change(Call::Shutdown, |domain| domain.shutdown(by, obey))
    }

    fn destroy(&self, _how: DestroyMode) -> Result<()> {
        self.change(Call::Destroy, SimulatedDomain::destroy)
    }
}

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
                (_, None, None) => return Err(no_domain(&domain.name)),
            };
            Ok(text)
        })
    }

    fn undefine(&self, _what: UndefineOptions) -> Result<()> {
        self.change(Call::Undefine, SimulatedDomain::undefine)
    }
}
