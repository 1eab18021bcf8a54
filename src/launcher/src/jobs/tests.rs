#![allow(clippy::unwrap_used)]

mod memory_dump;

use std::time::Duration;

use hook_host::Reason;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{DomainState, StartOptions};
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::agent::GuestInfoCache;
use crate::libvirt_client::{Connection, ConnectionEvent};
use crate::notify::{InvolvedObject, Notifier, Retry};
use crate::vm_events::VmEvent;

pub(super) const DOMAIN: &str = "default_vm1";
pub(super) const SOON: Duration = Duration::from_secs(20);

/// No test that is not about it waits for it.
const STALL: Duration = Duration::from_secs(1);

/// Collects records in order, and when they were sent to virt-handler.
#[derive(Default)]
struct Records {
    records: Mutex<Vec<MemoryDump>>,
    panics: bool,
    published: Option<Notify>,
}

impl JobRecorder for Records {
    fn set_memory_dump(&self, record: MemoryDump) {
        self.records.lock().unwrap().push(record);
    }

    fn migration(&self) -> Option<Migration> {
        None
    }

    fn set_migration(&self, record: Migration) {
        panic!("no migration is made here: {record:?}");
    }

    fn set_backup(&self, _: Backup) {
        unreachable!("no backup is made here");
    }

    fn all_published(&self) -> BoxFuture<'_, ()> {
        assert!(!self.panics, "a fault of the launcher");
        Box::pin(async {
            if let Some(published) = &self.published {
                published.notified().await;
            }
        })
    }
}

/// There are no hooks.
struct NoHooks;

impl Hooks for NoHooks {}

/// What jobs on the fake daemon work with.
async fn context(
    fake: &FakeDaemon,
    recorder: Arc<dyn JobRecorder>,
    progress: ProgressTimes,
) -> JobContext {
    let daemon = fake.clone();
    let connect: Connect = Arc::new(move || daemon.connect());
    let connection = Connection::open("fake:///", Arc::clone(&connect), SOON);
    let client = Client::new(connection.await.unwrap(), DOMAIN, "/nonexistent/pid".into());
    let job_events = Arc::new(VmEventsForJob::default());
    let observed_events = Arc::clone(&job_events);
    let monitored = client.monitor(move |event| {
        if let ConnectionEvent::Libvirt(event) = event {
            observed_events.observe(&VmEvent::Libvirt(event));
        }
    });
    monitored.await.unwrap();
    let involved = InvolvedObject::default();
    let (notifier, _) = Notifier::new("/nonexistent/notify".as_ref(), involved, Retry::default());
    let cache = Arc::new(GuestInfoCache::new(mpsc::unbounded_channel().0));
    JobContext {
        domain: DOMAIN.into(),
        connect,
        connect_target: Arc::new(|_: &str| FakeDaemon::new().connect()),
        recorder,
        progress,
        migration: MigrationEnvironment::default(),
        freezer: Freezer::new(client.clone(), cache, "/nonexistent/tpm".into()),
        client,
        backup_socket: "/nonexistent/backup-nbd-sock".into(),
        hooks: Arc::new(NoHooks),
        hook_failures: HookFailureEvents::new(notifier),
        invocation: Invocation {
            reason: Reason::MigrationSource,
            namespace: "default".into(),
            name: "vm1".into(),
            uid: "1234".into(),
            domain: DOMAIN.into(),
        },
        events: mpsc::unbounded_channel().0,
        job_events,
    }
}

/// Jobs of a running domain on the fake daemon, their records, and a directory for files.
pub(super) struct RunningVm<R> {
    pub(super) fake: FakeDaemon,
    pub(super) jobs: Jobs,
    pub(super) records: Arc<R>,
    pub(super) directory: TempDir,
}

impl<R: JobRecorder + 'static> RunningVm<R> {
    pub(super) async fn running(xml: &str, records: R, progress: ProgressTimes) -> RunningVm<R> {
        let (fake, records) = (FakeDaemon::new(), Arc::new(records));
        let domain = fake.connect().unwrap().define(xml).unwrap();
        domain.start(StartOptions::RUNNING).unwrap();
        let recorder = Arc::clone(&records) as Arc<dyn JobRecorder>;
        let jobs = Jobs::new(context(&fake, recorder, progress).await);
        RunningVm {
            fake,
            jobs,
            records,
            directory: tempfile::tempdir().unwrap(),
        }
    }
}

impl RunningVm<Records> {
    async fn new() -> Self {
        RunningVm::with(Records::default()).await
    }

    async fn with(records: Records) -> Self {
        let xml = format!("<domain type='kvm'><name>{DOMAIN}</name></domain>");
        let progress = ProgressTimes {
            report: STALL / 20,
            stall: STALL,
        };
        RunningVm::running(&xml, records, progress).await
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().into()
    }

    fn start(&self, path: &str) -> JobStart {
        let request = MemoryDumpRequest::new(path).unwrap();
        self.jobs.start_memory_dump(request)
    }

    async fn ended(&self) -> Vec<MemoryDump> {
        tokio::time::timeout(SOON, self.jobs.ended()).await.unwrap();
        self.records.records.lock().unwrap().clone()
    }

    async fn until(&self, done: impl Fn() -> bool) {
        let waiting = async {
            while !done() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(SOON, waiting).await.unwrap();
    }

    async fn until_dumping(&self) {
        let dumping = || self.fake.state(DOMAIN).unwrap().state == DomainState::Paused;
        self.until(dumping).await;
    }

    /// The one failure that was recorded, after the one beginning.
    async fn failure(&self) -> String {
        let records = self.ended().await;
        let [begun, failed] = &records[..] else {
            panic!("{records:?}")
        };
        assert!(!begun.completed && begun.end_timestamp.is_none());
        assert!(failed.completed && failed.failed && failed.end_timestamp.is_some());
        assert_eq!(failed.file_name, begun.file_name);
        assert_eq!(*self.jobs.running().borrow(), None);
        failed.failure_reason.clone()
    }
}
