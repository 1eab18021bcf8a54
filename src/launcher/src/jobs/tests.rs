#![allow(clippy::unwrap_used)]

use std::time::Duration;

use hook_host::Reason;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{DomainState, StartOptions};
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::agent::GuestInfoCache;
use crate::libvirt_client::{Connection, ConnectionEvent};
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
    let signals = Arc::new(JobSignals::default());
    let told = Arc::clone(&signals);
    let monitored = client.monitor(move |event| {
        if let ConnectionEvent::Libvirt(event) = event {
            told.observe(&VmEvent::Libvirt(event));
        }
    });
    monitored.await.unwrap();
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
        invocation: Invocation {
            reason: Reason::MigrationSource,
            namespace: "default".into(),
            name: "vm1".into(),
            uid: "1234".into(),
            domain: DOMAIN.into(),
        },
        events: mpsc::unbounded_channel().0,
        signals,
    }
}

/// Jobs of a running domain on the fake daemon, their records, and a directory for files.
pub(super) struct Rig<R> {
    pub(super) fake: FakeDaemon,
    pub(super) jobs: Jobs,
    pub(super) records: Arc<R>,
    pub(super) directory: TempDir,
}

impl<R: JobRecorder + 'static> Rig<R> {
    pub(super) async fn running(xml: &str, records: R, progress: ProgressTimes) -> Rig<R> {
        let (fake, records) = (FakeDaemon::new(), Arc::new(records));
        let domain = fake.connect().unwrap().define(xml).unwrap();
        domain.start(StartOptions::RUNNING).unwrap();
        let recorder = Arc::clone(&records) as Arc<dyn JobRecorder>;
        let jobs = Jobs::new(context(&fake, recorder, progress).await);
        Rig {
            fake,
            jobs,
            records,
            directory: tempfile::tempdir().unwrap(),
        }
    }
}

impl Rig<Records> {
    async fn new() -> Self {
        Rig::with(Records::default()).await
    }

    async fn with(records: Records) -> Self {
        let xml = format!("<domain type='kvm'><name>{DOMAIN}</name></domain>");
        let progress = ProgressTimes {
            report: STALL / 20,
            stall: STALL,
        };
        Rig::running(&xml, records, progress).await
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

#[tokio::test]
async fn dump_is_recorded_at_its_start_and_end() {
    let rig = Rig::new().await;
    let path = rig.path("a.memory.dump");
    assert_eq!(rig.start(&path), JobStart::Started);
    let records = rig.ended().await;
    assert_eq!(records.len(), 2, "{records:?}");
    assert!(records[0].start_timestamp.is_some() && !records[0].completed);
    assert!(records[1].completed && !records[1].failed);
    assert!(std::path::Path::new(&path).exists());
    assert_eq!(rig.start(&path), JobStart::AlreadyDone);
    assert_eq!(rig.ended().await.len(), 2);
    let other = rig.path("b.memory.dump");
    assert_eq!(rig.start(&other), JobStart::Started);
    rig.ended().await;
    assert!(
        !std::path::Path::new(&path).exists(),
        "the earlier one went"
    );
}

#[tokio::test]
async fn one_dump_runs_at_a_time() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(Duration::from_millis(300));
    assert_eq!(rig.start(&rig.path("a.memory.dump")), JobStart::Started);
    rig.until_dumping().await;
    for name in ["a.memory.dump", "b.memory.dump"] {
        assert_eq!(rig.start(&rig.path(name)), JobStart::AlreadyRunning);
    }
    assert_eq!(*rig.jobs.running().borrow(), Some(JobKind::MemoryDump));
    assert_eq!(rig.ended().await.len(), 2);
    assert_eq!(rig.fake.count(Call::CoreDump), 1);
}

#[tokio::test]
async fn guest_runs_until_the_pause_is_published() {
    let rig = Rig::with(Records {
        published: Some(Notify::new()),
        ..Records::default()
    })
    .await;
    rig.start(&rig.path("a.memory.dump"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(rig.fake.count(Call::CoreDump), 0);
    rig.records.published.as_ref().unwrap().notify_one();
    assert!(rig.ended().await[1].completed);
}

#[tokio::test]
async fn every_failure_completes_the_record() {
    let no = || FakeDaemon::error(1, 7, "internal error: no");
    for call in [Call::Connect, Call::Lookup, Call::CoreDump] {
        let rig = Rig::new().await;
        rig.fake.fail_next(call, no());
        rig.start(&rig.path("a.memory.dump"));
        assert_eq!(
            rig.failure().await,
            "Domain memory dump failed: virError(Code=1, Domain=7, Message='internal error: no')"
        );
    }
    let rig = Rig::with(Records {
        panics: true,
        ..Records::default()
    })
    .await;
    rig.start(&rig.path("a.memory.dump"));
    assert!(rig.failure().await.contains("fault of the launcher"));
}

#[tokio::test]
async fn missing_directory_does_not_pause_the_guest() {
    let rig = Rig::new().await;
    rig.start("/nonexistent/x.dump");
    let reason = rig.failure().await;
    assert!(
        reason.contains("/nonexistent is not a writable directory"),
        "{reason}"
    );
    assert_eq!(rig.fake.count(Call::CoreDump), 0);
}

#[tokio::test]
async fn aborted_dump_has_a_reason_and_no_file() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(SOON * 10);
    let path = rig.path("a.memory.dump");
    rig.start(&path);
    rig.until(|| std::path::Path::new(&path).exists()).await;
    rig.jobs.abort(AbortReason::Kill);
    rig.jobs.abort(AbortReason::Exit);
    let asked = || rig.fake.count(Call::AbortJob) == 1;
    rig.until(asked).await;
    rig.fake.kill_qemu(DOMAIN);
    assert_eq!(
        rig.failure().await,
        "Domain memory dump failed: aborted, since the virtual machine is being ended"
    );
    rig.until(|| !std::path::Path::new(&path).exists()).await;
}

#[tokio::test]
async fn dump_without_an_end_is_recorded_as_failed() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(SOON * 10);
    rig.start(&rig.path("a.memory.dump"));
    rig.until_dumping().await;
    rig.jobs.abort(AbortReason::Exit);
    assert!(rig.failure().await.contains("the launcher is exiting"));
    rig.fake.kill_qemu(DOMAIN);
}

#[tokio::test]
async fn abort_before_the_dump_prevents_it() {
    let rig = Rig::with(Records {
        published: Some(Notify::new()),
        ..Records::default()
    })
    .await;
    rig.start(&rig.path("a.memory.dump"));
    rig.jobs.abort(AbortReason::Shutdown);
    let reason = rig.failure().await;
    assert!(
        reason.contains("the virtual machine is being shut down"),
        "{reason}"
    );
    assert_eq!(rig.fake.count(Call::CoreDump), 0);
    rig.jobs.abort(AbortReason::Exit);
    rig.jobs.ended().await;
}

#[tokio::test]
async fn dump_failure_is_recorded() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(SOON * 10);
    rig.start(&rig.path("a.memory.dump"));
    rig.until_dumping().await;
    rig.fake.fail_dump(
        DOMAIN,
        FakeDaemon::error(9, 10, "operation failed: no space"),
    );
    assert!(
        rig.failure()
            .await
            .ends_with("Message='operation failed: no space')")
    );
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Running);
}

#[tokio::test]
async fn dump_without_progress_is_aborted() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(Duration::from_secs(1 << 40));
    rig.start(&rig.path("a.memory.dump"));
    let reason = rig.failure().await;
    assert!(reason.contains("nothing was written for 1s"), "{reason}");
    assert!(rig.fake.count(Call::JobStats) > 1);
    rig.fake.kill_qemu(DOMAIN);
}

#[tokio::test]
async fn slow_dump_is_not_aborted() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(STALL * 3);
    rig.start(&rig.path("a.memory.dump"));
    assert!(!rig.ended().await[1].failed);
}
