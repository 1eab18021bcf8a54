//! [`FakeDaemon`], with which a test controls the fake daemon, its QEMU processes and their guests.

use std::sync::Arc;
use std::time::Duration;

use super::Call;
use super::connection_handle::FakeConnection;
use super::daemon::Daemon;
use crate::domain::{BlockInfo, DiskFault, LaunchSecret, LaunchSecurityInfo, Screenshot, SevInfo};
use crate::domain_jobs::JobType;
use crate::domain_state::{DomainState, Reason, State};
use crate::error::{Error, Result};
use crate::event::{CloseReason, Detail, Event, LifecycleEvent};
use crate::fake::Agent;
use crate::fake::running_jobs::{MigrationPlan, SentMigration};
use crate::fake::simulated_domain::{DefinitionXml, SimulatedDomain};
use crate::hypervisor_connection::HypervisorConnection;
use crate::stats::DomainStats;

/// Controls the daemon, its QEMU processes and their guests from a test. Clones control the same daemon.
#[derive(Clone, Default)]
pub struct FakeDaemon {
    daemon: Arc<Daemon>,
}

impl FakeDaemon {
    /// A daemon without domains.
    pub fn new() -> Self {
        FakeDaemon::default()
    }

    /// Opens a connection to the daemon.
    pub fn connect(&self) -> Result<Arc<dyn HypervisorConnection>> {
        Ok(Arc::new(FakeConnection::open(&self.daemon)?))
    }

    /// An error of libvirt; `code` is one of [`code`](crate::code), `origin` one of [`origin`](crate::origin).
    pub fn error(code: i32, origin: i32, message: &str) -> Error {
        Error {
            code,
            domain: origin,
            message: message.to_owned(),
        }
    }

    /// Makes the next such call fail. Several failures are used one after the other.
    pub fn fail_next(&self, call: Call, error: Error) {
        self.daemon
            .controls(|controls| controls.failures.push_back((call, error)));
    }

    /// Delays each such call. A delay of zero ends that.
    pub fn delay(&self, call: Call, delay: Duration) {
        self.daemon.controls(|controls| {
            controls.delays.insert(call, delay);
        });
    }

    /// The number of such calls so far, with those that failed.
    pub fn count(&self, call: Call) -> usize {
        self.daemon.controls(|controls| {
            controls
                .calls
                .iter()
                .filter(|&&recorded| recorded == call)
                .count()
        })
    }

    /// All calls so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.daemon.controls(|controls| controls.calls.clone())
    }

    /// Publishes an event.
    pub fn publish(&self, event: &Event) {
        self.daemon.publish(event);
    }

    /// Stops the daemon: connections end, and new ones are refused. Domains continue to run.
    pub fn stop_daemon(&self, reason: CloseReason) {
        self.daemon.stop(reason);
    }

    /// Starts the daemon again. Old connections stay closed.
    pub fn start_daemon(&self) {
        self.daemon.controls(|controls| controls.is_stopped = false);
    }

    /// The domain's state, also while the daemon is stopped.
    pub fn state(&self, domain: &str) -> Option<State> {
        self.daemon.with_domain(domain, |domain| domain.state)
    }

    /// Sets the statistics of the domain. Name and UUID are filled in when they are read.
    pub fn set_stats(&self, domain: &str, stats: DomainStats) {
        self.daemon
            .with_domain(domain, |domain| domain.stats = stats);
    }

    /// Sets the picture of the domain's screen. By default there is none.
    pub fn set_screenshot(&self, domain: &str, screenshot: Screenshot) {
        self.daemon.with_domain(domain, |domain| {
            domain.screenshot = Some(screenshot);
        });
    }

    /// Sets the result of the next measurement of the dirty rate, in MiB/s.
    pub fn set_dirty_rate(&self, domain: &str, mib_per_second: i64) {
        self.daemon.with_domain(domain, |domain| {
            domain.dirty_rate.next_mib = mib_per_second;
        });
    }

    /// Gives the host SEV firmware.
    pub fn set_sev_info(&self, info: SevInfo) {
        self.daemon
            .controls(|controls| controls.sev_info = Some(info));
    }

    /// Gives the domain launch security.
    pub fn set_launch_security(&self, domain: &str, info: LaunchSecurityInfo) {
        self.daemon.with_domain(domain, |domain| {
            domain.launch_security.info = Some(info);
        });
    }

    /// The secret that was written into the guest's memory.
    pub fn launch_secret(&self, domain: &str) -> Option<LaunchSecret> {
        let secret = |domain: &mut SimulatedDomain| domain.launch_security.secret.clone();
        self.daemon.with_domain(domain, secret).flatten()
    }

    /// The number of file descriptors of a group that are associated with the domain.
    pub fn associated_fds(&self, domain: &str, group: &str) -> usize {
        let count = |domain: &mut SimulatedDomain| domain.associated_fds.get(group).copied();
        self.daemon
            .with_domain(domain, count)
            .flatten()
            .unwrap_or_default()
    }

    /// Adds a disk, or sets its sizes.
    pub fn set_block_info(&self, domain: &str, disk: &str, info: BlockInfo) {
        self.daemon.with_domain(domain, |domain| {
            domain.blocks.insert(disk.to_owned(), info);
        });
    }

    /// The sizes of a disk.
    pub fn block_info(&self, domain: &str, disk: &str) -> Option<BlockInfo> {
        let block = |domain: &mut SimulatedDomain| domain.blocks.get(disk).copied();
        self.daemon.with_domain(domain, block).flatten()
    }

    /// The host CPUs that the virtual CPU `vcpu` is pinned to; for `None` those of QEMU's own threads.
    pub fn pins(&self, domain: &str, vcpu: Option<u32>) -> Option<Vec<u32>> {
        let pins = |domain: &mut SimulatedDomain| domain.pins.get(&vcpu).cloned();
        self.daemon.with_domain(domain, pins).flatten()
    }

    /// Adds a device to QEMU that the daemon does not know, as when a daemon has died while it attached the device.
    pub fn leave_device(&self, domain: &str, alias: &str) {
        self.daemon.with_domain(domain, |domain| {
            domain.leftover_devices.insert(alias.to_owned());
        });
    }

    /// The names of the checkpoints that the daemon knows.
    pub fn checkpoints(&self, domain: &str) -> Vec<String> {
        let checkpoints = |domain: &mut SimulatedDomain| domain.checkpoints.clone();
        self.daemon
            .with_domain(domain, checkpoints)
            .unwrap_or_default()
    }

    /// Sets the bitmaps of the image `file`.
    pub fn set_bitmaps(&self, domain: &str, file: &str, bitmaps: &[&str]) {
        let names = bitmaps.iter().map(|name| (*name).to_owned()).collect();
        self.daemon.with_domain(domain, |domain| {
            domain.bitmaps.insert(file.to_owned(), names);
        });
    }

    /// The XML of the domain's persistent configuration.
    pub fn inactive_xml(&self, domain: &str) -> Option<String> {
        let xml =
            |domain: &mut SimulatedDomain| domain.inactive.as_ref().map(DefinitionXml::render);
        self.daemon.with_domain(domain, xml).flatten()
    }

    /// Sets whether guests power off when they are asked to. By default they do.
    pub fn obey_shutdown(&self, obeys: bool) {
        self.daemon
            .controls(|controls| controls.ignores_shutdown = !obeys);
    }

    /// Sets whether the guest ignores requests to release a device; libvirt's call succeeds all the same. When the
    /// guest no longer ignores them, it releases the devices that it has kept.
    pub fn keep_devices(&self, domain: &str, keep: bool) {
        self.daemon.change_if_active(domain, |domain| {
            domain.keeps_devices = keep;
            if keep {
                Vec::new()
            } else {
                domain.release_devices()
            }
        });
    }

    /// Makes the guest power itself off.
    pub fn power_off(&self, domain: &str) {
        self.daemon
            .change_if_active(domain, |domain| domain.power_off());
    }

    /// Makes QEMU begin to shut down, as when libvirt ends it after a migration. QEMU has not ended yet.
    pub fn begin_qemu_shutdown(&self, domain: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.state = State::new(DomainState::Shutdown, Reason::Unknown);
            vec![domain.lifecycle(LifecycleEvent::Shutdown, Detail::Host)]
        });
    }

    /// Kills QEMU.
    pub fn kill_qemu(&self, domain: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.end_qemu(Reason::Crashed, Detail::Failed)
        });
    }

    /// Makes the guest's kernel panic, with a panic device and `on_crash` destroy.
    pub fn panic_guest(&self, domain: &str) {
        self.daemon.change_if_active(domain, |domain| {
            let panicked = domain.lifecycle(LifecycleEvent::Crashed, Detail::Panicked);
            let mut events = vec![panicked];
            events.extend(domain.end_qemu(Reason::Crashed, Detail::Crashed));
            events
        });
    }

    /// Sets the error that QEMU reports for a disk, by its target.
    pub fn set_disk_error(&self, domain: &str, target: &str, error: DiskFault) {
        self.daemon.with_domain(domain, |domain| {
            domain.disk_errors.insert(target.to_owned(), error);
        });
    }

    /// Makes a disk error pause the guest.
    pub fn io_error(&self, domain: &str, alias: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.state = State::new(DomainState::Paused, Reason::IOError);
            let io_error = Event::IoError {
                pauses_guest: true,
                domain: domain.name.clone(),
                alias: alias.to_owned(),
                path: String::new(),
                reason: "enospc".to_owned(),
            };
            vec![
                io_error,
                domain.lifecycle(LifecycleEvent::Suspended, Detail::IoError),
            ]
        });
    }

    /// Connects or disconnects the guest agent.
    pub fn set_agent(&self, domain: &str, agent: Option<Agent>) {
        self.daemon.change_if_active(domain, |domain| {
            let connected = agent.is_some();
            domain.agent = agent;
            vec![Event::AgentLifecycle {
                domain: domain.name.clone(),
                connected,
            }]
        });
    }

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

// What a test makes of a simulated migration to this daemon: arrival, resumption, failure and end.
//
// ```text
// [none] ── begin_incoming ──▶ Paused/Migration ── finish_incoming ──▶ Running or Paused/User ── end_incoming_job ──▶
// [no job]
// ```

/// The state in which a guest arrives: that on the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The guest stays paused.
    Paused,
    /// The guest runs.
    Running,
}

impl FakeDaemon {
    /// Makes a domain arrive from a source. It has a QEMU process, and is transient until
    /// [`FakeDaemon::finish_incoming`].
    ///
    /// # Errors
    /// The XML is not that of a domain.
    pub fn begin_incoming(&self, xml: &str) -> Result<()> {
        let definition = DefinitionXml::parse(xml)?;
        let uuid = definition.uuid.clone().unwrap_or_default();
        let name = definition.name.clone();
        let id = self.daemon.next_number();
        let mut domain = SimulatedDomain::new(definition, uuid);
        domain.active = domain.inactive.take();
        domain.id = id;
        domain.is_incoming = true;
        domain.state = State::new(DomainState::Paused, Reason::Migration);
        self.daemon.insert(domain);
        self.daemon.change(&name, |domain| {
            Ok(vec![
                domain.lifecycle(LifecycleEvent::Started, Detail::Migrated),
            ])
        })
    }

    /// Completes the transfer: libvirt defines the domain with the source's XML, and resumes a guest that arrives
    /// running. The job of the migration continues.
    ///
    /// # Errors
    /// The XML is not that of a domain.
    pub fn finish_incoming(&self, persistent_xml: &str, arrival: Arrival) -> Result<()> {
        let definition = DefinitionXml::parse(persistent_xml)?;
        let name = definition.name.clone();
        self.daemon.change(&name, |domain| {
            domain.inactive = Some(definition);
            let defined = domain.lifecycle(LifecycleEvent::Defined, Detail::Added);
            let (state, event) = match arrival {
                Arrival::Paused => (
                    State::new(DomainState::Paused, Reason::User),
                    domain.lifecycle(LifecycleEvent::Suspended, Detail::Paused),
                ),
                Arrival::Running => (
                    State::new(DomainState::Running, Reason::Migrated),
                    domain.lifecycle(LifecycleEvent::Resumed, Detail::Migrated),
                ),
            };
            domain.state = state;
            Ok(vec![defined, event])
        })
    }

    /// Makes the migration fail: libvirt ends the domain's QEMU without an event.
    pub fn fail_incoming(&self, domain: &str) {
        let _ = self.daemon.change(domain, |domain| {
            domain.end_qemu(Reason::Failed, Detail::Failed);
            Ok(Vec::new())
        });
    }

    /// Ends the job of the migration.
    pub fn end_incoming_job(&self, domain: &str) {
        self.daemon
            .with_domain(domain, |domain| domain.is_incoming = false);
    }
}
