//! The clients and settings of jobs.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::host_facts::HostFacts;
use futures_util::future::BoxFuture;
use hook_host::Invocation;
use kubevirt_api::domain_metadata::{Backup, MemoryDump, Migration};
use libvirt::{Detail, Domain, Event, HypervisorConnection, LifecycleEvent};
use tokio::sync::Notify;

use super::JobError;
use crate::blocking;
use crate::guest_agent::Freezer;
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;
use crate::libvirt_client::{Client, Connect, ConnectTarget};
use crate::migration_error_log::MigrationErrorLog;
use crate::vm_events::{VmEvent, VmEventSender};

/// Timeout of connecting to libvirt and looking up the domain.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of creating the marker of a migrated VM.
const MARKER_TIMEOUT: Duration = Duration::from_secs(10);

/// Stores the records of jobs, and publishes them to virt-handler.
pub trait JobRecorder: Send + Sync {
    /// Replaces the record of the memory dump.
    fn set_memory_dump(&self, record: MemoryDump);

    /// The record of the last migration, from or to this launcher.
    fn migration(&self) -> Option<Migration>;

    /// Replaces the record of the migration.
    fn set_migration(&self, record: Migration);

    /// Replaces the record of the backup.
    fn set_backup(&self, record: Backup);

    /// Waits until the current records were sent to virt-handler.
    fn all_published(&self) -> BoxFuture<'_, ()>;
}

/// How often a job's progress is reported, and how long there may be none.
#[derive(Debug, Clone, Copy)]
pub struct ProgressTimes {
    /// How often the progress is reported.
    pub report_interval: Duration,
    /// A job that makes no progress for this long is aborted. The whole job has no deadline, because its duration
    /// depends on the guest's size.
    pub stall_timeout: Duration,
}

impl Default for ProgressTimes {
    fn default() -> Self {
        ProgressTimes {
            report_interval: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(300),
        }
    }
}

/// The clients and settings of jobs.
#[derive(Clone)]
pub struct JobContext {
    /// libvirt's name of the domain.
    pub domain: String,
    /// Opens connections to libvirt. Each job has a connection of its own, so that a call that lasts as long as the job
    /// occupies no request slot of the main connection.
    pub connect: Connect,
    /// Opens connections to the libvirt daemon of a migration's target.
    pub connect_target: ConnectTarget,
    /// Stores and publishes the records.
    pub recorder: Arc<dyn JobRecorder>,
    /// The intervals at which progress is reported and its absence ends a job.
    pub progress: ProgressTimes,
    /// The parts of the pod that migrations from this launcher use.
    pub migration: MigrationEnvironment,
    /// The main connection, for jobs whose calls of libvirt are short.
    pub client: Client,
    /// Freezes and thaws the guest.
    pub freezer: Freezer,
    /// The socket on which QEMU serves a backup in pull mode.
    pub backup_socket: PathBuf,
    /// The hooks, which are called before a migration.
    pub hooks: Arc<dyn Hooks>,
    /// Sends Kubernetes events about hooks that failed.
    pub hook_failures: HookFailureEvents,
    /// The context of the hooks' calls on the source of a migration.
    pub invocation: Invocation,
    /// Sends events to the observer.
    pub events: VmEventSender,
    /// What the running job learns from the observer's events.
    pub job_events: Arc<VmEventsForJob>,
}

/// The parts of the pod that migrations from this launcher use.
#[derive(Debug, Clone, Default)]
pub struct MigrationEnvironment {
    /// The directory with virt-handler's sockets to the target (`--kubevirt-share-dir`).
    pub share: PathBuf,
    /// The directory of local disks (`--ephemeral-disk-dir`).
    pub ephemeral_disks: PathBuf,
    /// The host facts of the node and the pod.
    pub facts: HostFacts,
    /// Whether the source sets the target's file names and host CPUs in the domain XML. Otherwise the target sets them,
    /// through libvirt's hook (`--libvirt-hook-server-and-client`).
    pub sets_target_names_and_cpus: bool,
    /// The errors that libvirt's daemon logs about the migration.
    pub log: MigrationErrorLog,
    /// The file that tells KubeVirt that the VM has migrated away. Its directory exists only with backend storage.
    pub migrated_marker: PathBuf,
}

impl JobContext {
    /// Reports that the guest ends, or has ended, here because it has migrated, and writes the marker. libvirt does not
    /// know that the guest has migrated, so its hook, which otherwise writes the marker, is called with another reason.
    pub(super) async fn report_guest_left(&self) {
        // Fails only when the observer is gone.
        let _ = self.events.send(VmEvent::EndingAfterMigration);
        let marker = self.migration.migrated_marker.clone();
        let write = move || create_marker(&marker);
        let written =
            blocking::file_call("marking the backend storage", MARKER_TIMEOUT, write).await;
        let written = written.map_err(|error| error.to_string());
        if let Err(reason) = written.and_then(|io| io.map_err(|error| error.to_string())) {
            tracing::error!(
                reason,
                "KubeVirt may keep the backend storage that the guest has left"
            );
        }
    }

    /// Opens a connection for one job.
    pub(super) async fn open(&self) -> Result<JobConnection, JobError> {
        let (connect, domain) = (Arc::clone(&self.connect), self.domain.clone());
        let open = move || JobConnection::open(&connect, &domain);
        let opened = blocking::call("looking up the domain", OPEN_TIMEOUT, open).await??;
        opened.ok_or_else(|| JobError::NoDomain(self.domain.clone()))
    }
}

/// Creates the marker if its directory exists.
fn create_marker(marker: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o644);
    match options.open(marker) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened.map(drop),
    }
}

/// A connection and the domain on it. When it is dropped, the connection is closed on a thread for blocking calls.
pub(super) struct JobConnection {
    pub(super) hypervisor: Arc<dyn HypervisorConnection>,
    pub(super) domain: Arc<dyn Domain>,
    // The last field, so that it drops the last references.
    _drop_on_blocking_thread:
        DropOnBlockingThread<(Arc<dyn HypervisorConnection>, Arc<dyn Domain>)>,
}

impl JobConnection {
    /// Connects, and looks up the domain; `None` if there is no such domain. Blocking.
    pub(super) fn open(connect: &Connect, domain: &str) -> libvirt::Result<Option<JobConnection>> {
        let hypervisor = connect()?;
        let Some(domain) = hypervisor.lookup(domain)? else {
            return Ok(None);
        };
        Ok(Some(JobConnection {
            _drop_on_blocking_thread: DropOnBlockingThread(Some((
                Arc::clone(&hypervisor),
                Arc::clone(&domain),
            ))),
            hypervisor,
            domain,
        }))
    }
}

/// Calls libvirt about a job's domain, on a thread for blocking calls and with a timeout.
pub(super) async fn domain_call<T: Send + 'static>(
    domain: &Arc<dyn Domain>,
    what: &'static str,
    timeout: Duration,
    call: impl FnOnce(&dyn Domain) -> libvirt::Result<T> + Send + 'static,
) -> Result<T, JobError> {
    let domain = Arc::clone(domain);
    Ok(blocking::call(what, timeout, move || call(&*domain)).await??)
}

/// Drops its value on another thread, because closing a connection blocks when the daemon hangs, also after the job was
/// aborted or has failed.
struct DropOnBlockingThread<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Drop for DropOnBlockingThread<T> {
    fn drop(&mut self) {
        blocking::drop_connection(self.0.take());
    }
}

/// What the running job learns from the VM's events. The observer writes it, the job reads it.
#[derive(Debug, Default)]
pub struct VmEventsForJob {
    /// Notified after an event that concerns the job.
    changed: Notify,
    /// Whether QEMU's process has exited.
    qemu_exited: AtomicBool,
    /// Whether the guest is stopped for the switch to a migration's target.
    stopped_for_switch: AtomicBool,
}

impl VmEventsForJob {
    /// Updates the state after an event of the VM.
    pub fn observe(&self, event: &VmEvent) {
        if let VmEvent::Libvirt(Event::Lifecycle { event, detail, .. }) = event {
            self.observe_switch(*event, *detail);
        }
        match event {
            VmEvent::QemuExited => self.qemu_exited.store(true, Ordering::Relaxed),
            VmEvent::Libvirt(Event::Lifecycle {
                event: LifecycleEvent::Started,
                ..
            }) => return self.qemu_exited.store(false, Ordering::Relaxed),
            VmEvent::Libvirt(Event::JobCompleted { .. }) => {}
            _ => return,
        }
        self.changed.notify_one();
    }

    /// Forgets the events of an earlier migration, because a new one begins.
    pub(super) fn begin_migration(&self) {
        self.stopped_for_switch.store(false, Ordering::Relaxed);
    }

    fn observe_switch(&self, event: LifecycleEvent, detail: Detail) {
        match (event, detail) {
            (LifecycleEvent::Suspended, Detail::Migrated) => {
                self.stopped_for_switch.store(true, Ordering::Relaxed);
            }
            (LifecycleEvent::Started | LifecycleEvent::Resumed, _) => {
                self.stopped_for_switch.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Records that the guest runs here. Called after a resync, since the event may be lost.
    pub(crate) fn observe_running_guest(&self) {
        self.stopped_for_switch.store(false, Ordering::Relaxed);
    }

    /// Whether the guest is stopped for a migration: by libvirt for the switch to the target, or by the launcher.
    pub(crate) fn is_stopped_for_switch(&self) -> bool {
        self.stopped_for_switch.load(Ordering::Relaxed)
    }

    /// Waits for an event that concerns the job.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether QEMU's process has exited, even if libvirt has not noticed that.
    pub(super) fn has_qemu_exited(&self) -> bool {
        self.qemu_exited.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::thread::ThreadId;

    use super::*;

    /// Sends the thread on which it is dropped.
    struct DropThread(Sender<ThreadId>);

    impl Drop for DropThread {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }

    #[tokio::test]
    async fn connection_is_closed_on_another_thread_than_the_async_worker() {
        let (sender, receiver) = channel();
        drop(DropOnBlockingThread(Some(DropThread(sender))));
        let closed_on = tokio::task::spawn_blocking(move || receiver.recv().unwrap());
        assert_ne!(closed_on.await.unwrap(), thread::current().id());
    }

    #[test]
    fn guest_is_stopped_for_the_switch_until_it_runs_again() {
        let events = VmEventsForJob::default();
        let observe = |event, detail| {
            events.observe(&VmEvent::Libvirt(Event::Lifecycle {
                domain: "default_vm1".into(),
                event,
                detail,
            }));
            events.is_stopped_for_switch()
        };
        assert!(!observe(LifecycleEvent::Suspended, Detail::Paused));
        assert!(observe(LifecycleEvent::Suspended, Detail::Migrated));
        assert!(observe(LifecycleEvent::Stopped, Detail::Crashed));
        assert!(!observe(LifecycleEvent::Resumed, Detail::Migrated));
        assert!(observe(LifecycleEvent::Suspended, Detail::Migrated));
        events.begin_migration();
        assert!(
            !events.is_stopped_for_switch(),
            "forgotten at the next migration"
        );
    }
}
