//! A stateful libvirt daemon in memory; errors and the order of events are those of libvirt's QEMU driver.
//!
//! ```
//! use libvirt::{StartOptions, fake::{Call, FakeDaemon}};
//!
//! let daemon = FakeDaemon::new();
//! let hypervisor = daemon.connect()?;
//! let guest = hypervisor.define("<domain type='kvm'><name>default_vm</name></domain>")?;
//! guest.start(StartOptions::RUNNING)?;
//! daemon.kill_qemu("default_vm");
//! assert!(guest.state()?.is_down());
//!
//! daemon.fail_next(Call::Start, FakeDaemon::error(1, 10, "internal error: no"));
//! assert_eq!(guest.start(StartOptions::RUNNING).unwrap_err().code, 1);
//! # Ok::<(), libvirt::Error>(())
//! ```
//! Events are delivered on the thread of the call that causes them, before it returns. The same
//! contract (`tests/driver_contract`) is checked on this daemon, on libvirt's test driver and on real QEMU.

mod backup_progress;
mod connection_calls;
mod daemon;
mod definition_xml;
mod dirty_rate;
mod dirty_rate_state;
mod domain_handle;
mod dump_progress;
mod fake_connection;
mod incoming_migration;
mod invalid_operation;
mod launch_security;
mod migration_plan;
mod qemu_monitor;
mod running_migration;
mod screenshot;
mod simulated_backup;
mod simulated_devices;
mod simulated_domain;
mod simulated_memory_dump;
mod simulated_migration;

use std::sync::Arc;
use std::time::Duration;

use crate::disks::{BlockInfo, DiskFault};
use crate::domain_jobs::JobType;
use crate::domain_state::{DomainState, Reason, State};
use crate::error::{Error, Result};
use crate::event::{CloseReason, Detail, Event, LifecycleEvent};
use crate::hypervisor_connection::HypervisorConnection;
use crate::launch_security::{LaunchSecret, LaunchSecurityInfo, SevInfo};
use crate::screenshot::Screenshot;
use crate::stats::DomainStats;
use daemon::Daemon;
use fake_connection::FakeConnection;
pub use migration_plan::{MigrationPlan, SentMigration};
use simulated_domain::SimulatedDomain;

/// Answers the guest agent's commands: JSON in, JSON out.
pub type Agent = Arc<dyn Fn(&str) -> Result<String> + Send + Sync>;

/// The calls that are counted, and can be made to fail or to take longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the method of its name")]
pub enum Call {
    Connect,
    Subscribe,
    Lookup,
    Define,
    State,
    Stats,
    Xml,
    Start,
    Suspend,
    Resume,
    Reset,
    Reboot,
    Shutdown,
    Destroy,
    Undefine,
    Agent,
    AssociateFds,
    BlockInfo,
    /// [`crate::Blocks::disk_errors`]
    DiskErrors,
    ResizeBlock,
    CoreDump,
    AbortJob,
    JobStats,
    Migrate,
    SetMaxDowntime,
    StartPostCopy,
    CompletedJob,
    BeginBackup,
    RedefineCheckpoint,
    QemuCommand,
    AttachDevice,
    DetachDevice,
    UpdateDevice,
    SetVcpus,
    PinVcpu,
    PinEmulator,
    Screenshot,
    StartDirtyRate,
    DirtyRate,
    SevInfo,
    LaunchSecurity,
}

/// Controls the daemon, its QEMU processes and their guests from a test. Clones are the same daemon.
#[derive(Clone, Default)]
pub struct FakeDaemon {
    daemon: Arc<Daemon>,
}

impl FakeDaemon {
    /// A daemon without domains.
    pub fn new() -> Self {
        FakeDaemon::default()
    }

    /// A connection to it.
    pub fn connect(&self) -> Result<Arc<dyn HypervisorConnection>> {
        Ok(Arc::new(FakeConnection::open(&self.daemon)?))
    }

    /// An error as libvirt would give it.
    pub fn error(code: i32, domain: i32, message: &str) -> Error {
        Error {
            code,
            domain,
            message: message.to_owned(),
        }
    }

    /// The next such call fails; several failures queue up.
    pub fn fail_next(&self, call: Call, error: Error) {
        self.daemon
            .controls(|controls| controls.failures.push_back((call, error)));
    }

    /// Every such call takes this much longer; zero ends it.
    pub fn delay(&self, call: Call, by: Duration) {
        self.daemon.controls(|controls| {
            controls.delays.insert(call, by);
        });
    }

    /// How often a call was made, failures included.
    pub fn count(&self, call: Call) -> usize {
        self.daemon.controls(|controls| {
            controls
                .calls
                .iter()
                .filter(|&&last_number| last_number == call)
                .count()
        })
    }

    /// Every call so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.daemon.controls(|controls| controls.calls.clone())
    }

    /// Whether the guest powers off when asked to; by default it does.
    pub fn obey_shutdown(&self, obey: bool) {
        self.daemon
            .controls(|controls| controls.disobedient = !obey);
    }

    /// The domain's state, also while the daemon is stopped.
    pub fn state(&self, domain: &str) -> Option<State> {
        self.daemon.with_domain(domain, |domain| domain.state)
    }

    /// What `Domain::stats` returns while the domain runs (its name and UUID are filled in).
    pub fn set_stats(&self, domain: &str, stats: DomainStats) {
        self.daemon
            .with_domain(domain, |domain| domain.stats = stats);
    }

    /// What the domain's screen shows; nothing at first.
    pub fn set_screenshot(&self, domain: &str, screenshot: Screenshot) {
        self.daemon.with_domain(domain, |domain| {
            domain.screenshot = Some(screenshot);
        });
    }

    /// The result of the next measurement of the dirty rate, in MiB/s.
    pub fn set_dirty_rate(&self, domain: &str, mib_per_second: i64) {
        self.daemon.with_domain(domain, |domain| {
            domain.dirty_rate.next_mib = mib_per_second;
        });
    }

    /// The host has SEV.
    pub fn set_sev_info(&self, info: SevInfo) {
        self.daemon
            .controls(|controls| controls.sev_info = Some(info));
    }

    /// The domain was launched with SEV.
    pub fn set_launch_security(&self, domain: &str, info: LaunchSecurityInfo) {
        self.daemon.with_domain(domain, |domain| {
            domain.launch_security.info = Some(info);
        });
    }

    /// The secret that the domain was given.
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

    /// The domain has a disk of this size.
    pub fn set_block_info(&self, domain: &str, disk: &str, info: BlockInfo) {
        self.daemon.with_domain(domain, |domain| {
            domain.blocks.insert(disk.to_owned(), info);
        });
    }

    /// How large a disk of the domain is.
    pub fn block_info(&self, domain: &str, disk: &str) -> Option<BlockInfo> {
        let block = |domain: &mut SimulatedDomain| domain.blocks.get(disk).copied();
        self.daemon.with_domain(domain, block).flatten()
    }

    /// Whether the guest ignores requests to let go of a device; libvirt's call succeeds all the same. When the guest
    /// no longer does, it lets go of the devices that it was asked for.
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

    /// The host's processors that processor `vcpu` is pinned to, or QEMU's own threads for `None`.
    pub fn pins(&self, domain: &str, vcpu: Option<u32>) -> Option<Vec<u32>> {
        let pins = |domain: &mut SimulatedDomain| domain.pins.get(&vcpu).cloned();
        self.daemon.with_domain(domain, pins).flatten()
    }

    /// The guest powers itself off.
    pub fn power_off(&self, domain: &str) {
        self.daemon
            .change_if_active(domain, |domain| domain.power_off());
    }

    /// QEMU is asked to end, as by libvirt after a migration; it has not ended yet.
    pub fn begin_end(&self, domain: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.state = State::new(DomainState::Shutdown, Reason::Unknown);
            vec![domain.lifecycle(LifecycleEvent::Shutdown, Detail::Host)]
        });
    }

    /// QEMU dies.
    pub fn kill_qemu(&self, domain: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.ended(Reason::Crashed, Detail::Failed)
        });
    }

    /// The guest's kernel panics, with a panic device and `on_crash` destroy.
    pub fn panic_guest(&self, domain: &str) {
        self.daemon.change_if_active(domain, |domain| {
            let panicked = domain.lifecycle(LifecycleEvent::Crashed, Detail::Panicked);
            let mut events = vec![panicked];
            events.extend(domain.ended(Reason::Crashed, Detail::Crashed));
            events
        });
    }

    /// QEMU reports this error of a disk, by its target.
    pub fn set_disk_error(&self, domain: &str, target: &str, error: DiskFault) {
        self.daemon.with_domain(domain, |domain| {
            domain.disk_errors.insert(target.to_owned(), error);
        });
    }

    /// A disk error stops the guest.
    pub fn io_error(&self, domain: &str, alias: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.state = State::new(DomainState::Paused, Reason::IOError);
            let error = Event::IoError {
                pauses_guest: true,
                domain: domain.name.clone(),
                alias: alias.to_owned(),
                path: String::new(),
                reason: "enospc".to_owned(),
            };
            vec![
                error,
                domain.lifecycle(LifecycleEvent::Suspended, Detail::IoError),
            ]
        });
    }

    /// How long a memory dump takes; it ends at once by default.
    pub fn set_dump_duration(&self, time: Duration) {
        self.daemon
            .controls(|controls| controls.dump_duration = time);
    }

    /// The running dump fails, as when its disk is full or its writer dies.
    pub fn fail_dump(&self, domain: &str, error: Error) {
        self.daemon.with_domain(domain, |domain| {
            if let Some(dump) = &mut domain.dump {
                dump.failure = Some(error);
            }
        });
    }

    /// How migrations from now on go.
    pub fn set_migration(&self, plan: MigrationPlan) {
        self.daemon.controls(|controls| controls.migration = plan);
    }

    /// The running migration fails, as when its target goes away.
    pub fn fail_migration(&self, domain: &str, error: Error) {
        self.daemon.with_domain(domain, |domain| {
            if let Some(migration) = &mut domain.migration {
                migration.failure.get_or_insert(error);
            }
        });
    }

    /// Whether the domain migrates away now.
    pub fn is_migrating(&self, domain: &str) -> bool {
        let migrates = |domain: &mut SimulatedDomain| domain.migration.is_some();
        self.daemon.with_domain(domain, migrates) == Some(true)
    }

    /// The migrations that were asked for, in order.
    pub fn migrations(&self) -> Vec<SentMigration> {
        self.daemon.controls(|controls| controls.migrations.clone())
    }

    /// The maximum downtimes that were set, in milliseconds.
    pub fn max_downtimes(&self) -> Vec<u64> {
        self.daemon
            .controls(|controls| controls.max_downtimes.clone())
    }

    /// How long a backup in push mode takes; it ends at once by default.
    pub fn set_backup_duration(&self, time: Duration) {
        self.daemon
            .controls(|controls| controls.backup_duration = time);
    }

    /// The running backup fails, as when its disk is full.
    pub fn fail_backup(&self, domain: &str, error: &str) {
        self.daemon.change_if_active(domain, |domain| {
            domain.end_backup(JobType::Failed, Some(error))
        });
    }

    /// The checkpoints that the daemon knows of.
    pub fn checkpoints(&self, domain: &str) -> Vec<String> {
        let checkpoints = |domain: &mut SimulatedDomain| domain.checkpoints.clone();
        self.daemon
            .with_domain(domain, checkpoints)
            .unwrap_or_default()
    }

    /// The bitmaps of an image, by the image's path.
    pub fn set_bitmaps(&self, domain: &str, file: &str, bitmaps: &[&str]) {
        let names = bitmaps.iter().map(|name| (*name).to_owned()).collect();
        self.daemon.with_domain(domain, |domain| {
            domain.bitmaps.insert(file.to_owned(), names);
        });
    }

    /// QEMU has a device that the daemon does not know, as after a daemon that died inside of an attach.
    pub fn leave_device(&self, domain: &str, alias: &str) {
        self.daemon.with_domain(domain, |domain| {
            domain.leftover_devices.insert(alias.to_owned());
        });
    }

    /// The guest's agent connects or disconnects.
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

    /// Publishes an event.
    pub fn publish(&self, event: &Event) {
        self.daemon.publish(event);
    }

    /// The daemon ends: connections end, new ones are refused. Domains keep running.
    pub fn stop_daemon(&self, reason: CloseReason) {
        self.daemon.stop(reason);
    }

    /// The daemon starts again. Old connections stay closed.
    pub fn start_daemon(&self) {
        self.daemon.controls(|controls| controls.down = false);
    }
}
