#![allow(clippy::unwrap_used)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use kubevirt_api::domain_metadata::{MemoryDump, Migration};
use libvirt::fake::{Call, FakeDaemon};

use super::*;
use crate::jobs::tests::{DOMAIN, Rig, SOON};
use crate::jobs::{JobRecorder, ProgressTimes};

const XML: &str = "<domain type='kvm'><name>default_vm1</name><devices>\
    <disk type='file' device='disk'><source file='/d/os.qcow2'/><target dev='vda' bus='virtio'/>\
    <alias name='ua-os'/></disk>\
    <disk type='file' device='disk'><source file='/cbt/data.qcow2'><dataStore type='file'>\
    <format type='raw'/><source file='/d/disk.img'/></dataStore></source>\
    <target dev='vdc' bus='virtio'/><alias name='ua-data'/></disk></devices></domain>";

#[derive(Default)]
struct Records(Mutex<Vec<Backup>>);

impl JobRecorder for Records {
    fn set_memory_dump(&self, _: MemoryDump) {}

    fn migration(&self) -> Option<Migration> {
        None
    }

    fn set_migration(&self, _: Migration) {}

    fn set_backup(&self, record: Backup) {
        self.0.lock().unwrap().push(record);
    }

    fn all_published(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Rig<Records> {
    async fn new() -> Self {
        Rig::with(XML, ProgressTimes::default()).await
    }

    async fn with(xml: &str, progress: ProgressTimes) -> Self {
        Rig::running(xml, Records::default(), progress).await
    }

    fn id(&self, name: &str) -> BackupId {
        BackupId {
            name: name.into(),
            start_time: Some("2026-11-21T13:10:00Z".parse().unwrap()),
        }
    }

    fn request(&self, name: &str, mode: Mode, edit: impl Fn(&mut BackupFields)) -> BackupRequest {
        let mut fields = BackupFields {
            id: self.id(name),
            vmi_name: "vm1".into(),
            mode,
            target_path: Some(self.directory.path().to_owned()),
            incremental: None,
            skip_quiesce: true,
            persistent_tpm: false,
        };
        edit(&mut fields);
        BackupRequest::new(fields).unwrap()
    }

    async fn start(&self, name: &str, mode: Mode) -> Result<JobStart, BackupError> {
        self.jobs
            .start_backup(self.request(name, mode, |_| {}))
            .await
    }

    async fn last(&self) -> Backup {
        tokio::time::timeout(SOON, self.jobs.ended()).await.unwrap();
        self.records.0.lock().unwrap().last().unwrap().clone()
    }

    fn files(&self) -> Vec<String> {
        let path = self.directory.path().join("vm1/bk1-2026-11-21_13-10-00");
        let Ok(entries) = std::fs::read_dir(path) else {
            return Vec::new();
        };
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

#[tokio::test]
async fn push_ends_by_itself_and_leaves_file_and_checkpoint() {
    let rig = Rig::new().await;
    rig.fake.set_backup_duration(Duration::from_millis(100));
    let started = rig.start("bk1", Mode::Push).await.unwrap();
    assert_eq!(started, JobStart::Started);
    let again = rig.start("bk1", Mode::Push).await.unwrap();
    assert_eq!(again, JobStart::AlreadyRunning);
    let record = rig.last().await;
    assert!(record.completed && !record.failed, "{record:?}");
    assert_eq!(record.quiesce_status, "Skipped");
    assert_eq!(record.checkpoint_name, "bk1-2026-11-21_13-10-00");
    assert_eq!(
        record.volumes,
        r#"[{"volumeName":"data","diskTarget":"vdc"}]"#
    );
    assert_eq!(rig.fake.checkpoints(DOMAIN), ["bk1-2026-11-21_13-10-00"]);
    assert_eq!(rig.files(), ["bk1-data.qcow2"]);
    let error = rig.start("bk1", Mode::Push).await.unwrap_err().to_string();
    assert!(error.contains("has ended at"), "{error}");
    assert_eq!(rig.fake.count(Call::BeginBackup), 1);
}

#[tokio::test]
async fn pull_lasts_until_it_is_aborted() {
    let rig = Rig::new().await;
    rig.start("bk1", Mode::Pull).await.unwrap();
    let other = rig.start("bk2", Mode::Push).await.unwrap_err();
    assert!(other.to_string().contains("bk1 already in progress"));
    assert!(rig.jobs.abort_backup(&rig.id("bk2")).await.is_err());
    assert_eq!(*rig.jobs.running().borrow(), Some(JobKind::Backup));
    rig.jobs.abort_backup(&rig.id("bk1")).await.unwrap();
    let record = rig.last().await;
    assert!(record.completed && !record.failed, "{record:?}");
    assert!(rig.jobs.abort_backup(&rig.id("bk1")).await.is_err());
}

#[tokio::test]
async fn failed_start_leaves_an_empty_record_and_no_directory() {
    let rig = Rig::new().await;
    let incremental = rig.request("bk1", Mode::Push, |fields| {
        fields.incremental = Some("nope".into());
    });
    let error = rig.jobs.start_backup(incremental).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "virError(Code=103, Domain=10, Message='Domain checkpoint not found: Checkpoint 'nope' for \
         incremental backup of disk 'vdc' not found')"
    );
    assert_eq!(rig.last().await, Backup::default());
    assert!(
        !rig.directory
            .path()
            .join("vm1/bk1-2026-11-21_13-10-00")
            .exists()
    );
    rig.start("bk1", Mode::Push).await.unwrap();
    assert!(rig.last().await.completed, "a retry goes on");
}

#[tokio::test]
async fn domain_without_tracked_disks_is_not_backed_up() {
    let xml = "<domain type='kvm'><name>default_vm1</name></domain>";
    let rig = Rig::with(xml, ProgressTimes::default()).await;
    let error = rig.start("bk1", Mode::Push).await.unwrap_err().to_string();
    assert!(error.contains("no disk of the domain"), "{error}");
    assert_eq!(rig.fake.count(Call::BeginBackup), 0);
}

#[tokio::test]
async fn guest_that_cannot_be_frozen_is_backed_up_as_it_is() {
    let rig = Rig::new().await;
    let quiesced = rig.request("bk1", Mode::Push, |fields| fields.skip_quiesce = false);
    rig.jobs.start_backup(quiesced).await.unwrap();
    let record = rig.last().await;
    assert_eq!(record.quiesce_status, "Failed");
    assert!(record.completed && !record.failed);
}

/// The guest's agent. Its freeze command freezes only a guest that `obeys`.
#[derive(Clone)]
struct FreezingAgent {
    frozen: Arc<AtomicBool>,
    thaws: Arc<AtomicUsize>,
}

impl FreezingAgent {
    fn connect(rig: &Rig<Records>, frozen: bool, obeys: bool) -> FreezingAgent {
        let agent = FreezingAgent {
            frozen: Arc::new(AtomicBool::new(frozen)),
            thaws: Arc::default(),
        };
        let FreezingAgent { frozen, thaws } = agent.clone();
        let answer = move |command: &str| {
            let status = match frozen.load(Ordering::SeqCst) {
                true => r#"{"return":"frozen"}"#,
                false => r#"{"return":"thawed"}"#,
            };
            if command.contains("guest-fsfreeze-freeze") {
                frozen.store(obeys, Ordering::SeqCst);
            } else if command.contains("guest-fsfreeze-thaw") {
                frozen.store(false, Ordering::SeqCst);
                thaws.fetch_add(1, Ordering::SeqCst);
            } else {
                return Ok(status.to_owned());
            }
            Ok(r#"{"return":1}"#.to_owned())
        };
        rig.fake.set_agent(DOMAIN, Some(Arc::new(answer)));
        agent
    }

    async fn back_up(&self, rig: &Rig<Records>) -> Backup {
        let quiesced = rig.request("bk1", Mode::Push, |fields| fields.skip_quiesce = false);
        rig.jobs.start_backup(quiesced).await.unwrap();
        let record = rig.last().await;
        assert!(record.completed && !record.failed, "{record:?}");
        record
    }
}

#[tokio::test]
async fn guest_is_frozen_while_the_backup_begins() {
    let rig = Rig::new().await;
    let agent = FreezingAgent::connect(&rig, false, true);
    assert_eq!(agent.back_up(&rig).await.quiesce_status, "Succeeded");
    assert!(!agent.frozen.load(Ordering::SeqCst));
    assert_eq!(agent.thaws.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn guest_that_was_thawed_before_the_backup_began_is_not_quiesced() {
    let rig = Rig::new().await;
    let record = FreezingAgent::connect(&rig, false, false)
        .back_up(&rig)
        .await;
    assert_eq!(record.quiesce_status, "Failed");
    assert!(
        record.backup_msg.contains("was thawed before"),
        "{record:?}"
    );
}

/// As the agent of a guest that runs from memory answers.
#[tokio::test]
async fn guest_without_a_file_system_to_freeze_is_quiesced() {
    let rig = Rig::new().await;
    let answer = |command: &str| {
        let answer = match command.contains("guest-fsfreeze-freeze") {
            true => r#"{"return":0}"#,
            false => r#"{"return":"thawed"}"#,
        };
        Ok(answer.to_owned())
    };
    rig.fake.set_agent(DOMAIN, Some(Arc::new(answer)));
    let quiesced = rig.request("bk1", Mode::Push, |fields| fields.skip_quiesce = false);
    rig.jobs.start_backup(quiesced).await.unwrap();
    assert_eq!(rig.last().await.quiesce_status, "Succeeded");
}

#[tokio::test]
async fn guest_that_somebody_else_froze_stays_frozen() {
    let rig = Rig::new().await;
    let agent = FreezingAgent::connect(&rig, true, true);
    assert_eq!(agent.back_up(&rig).await.quiesce_status, "Succeeded");
    assert!(agent.frozen.load(Ordering::SeqCst));
}

#[tokio::test]
async fn failed_push_has_a_reason_and_no_files() {
    let rig = Rig::new().await;
    rig.fake.set_backup_duration(SOON * 10);
    rig.start("bk1", Mode::Push).await.unwrap();
    assert_eq!(rig.files().len(), 1);
    rig.fake.fail_backup(DOMAIN, "No space left on device");
    let record = rig.last().await;
    assert!(record.failed);
    assert_eq!(record.backup_msg, "No space left on device");
    let gone = async {
        while !rig.files().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.unwrap();
}

#[tokio::test]
async fn end_of_the_vm_completes_the_record() {
    for mode in [Mode::Push, Mode::Pull] {
        let rig = Rig::new().await;
        rig.fake.set_backup_duration(SOON * 10);
        rig.start("bk1", mode).await.unwrap();
        rig.jobs.abort(AbortReason::Kill);
        rig.fake.kill_qemu(DOMAIN);
        let record = rig.last().await;
        assert!(record.failed && record.completed, "{record:?}");
        assert!(record.backup_msg.contains("is being ended"), "{record:?}");
    }
}

const STALLING: ProgressTimes = ProgressTimes {
    report: Duration::from_millis(20),
    stall: Duration::from_millis(300),
};

#[tokio::test]
async fn backup_without_progress_is_aborted_until_it_has_ended() {
    // A slow machine has this long for the second attempt.
    let stall = Duration::from_secs(2);
    let rig = Rig::with(XML, ProgressTimes { stall, ..STALLING }).await;
    rig.fake.set_backup_duration(SOON * 10);
    let busy = FakeDaemon::error(68, 10, "Timed out during operation: cannot acquire lock");
    rig.fake.fail_next(Call::AbortJob, busy);
    rig.start("bk1", Mode::Push).await.unwrap();
    let record = rig.last().await;
    assert!(
        record.backup_msg.contains("nothing was written"),
        "{record:?}"
    );
    assert_eq!(rig.fake.count(Call::AbortJob), 2);
    rig.fake.set_backup_duration(Duration::ZERO);
    rig.start("bk2", Mode::Push).await.unwrap();
    assert!(!rig.last().await.failed, "libvirt has no other job");
}

#[tokio::test]
async fn stalled_backup_that_cannot_be_aborted_keeps_its_files() {
    let rig = Rig::with(XML, STALLING).await;
    rig.fake.set_backup_duration(SOON * 10);
    for _ in 0..10_000 {
        let busy = FakeDaemon::error(68, 10, "Timed out during operation: cannot acquire lock");
        rig.fake.fail_next(Call::AbortJob, busy);
    }
    rig.start("bk1", Mode::Push).await.unwrap();
    let record = rig.last().await;
    assert!(record.failed, "{record:?}");
    assert!(
        record.backup_msg.contains("libvirt does not end it"),
        "{record:?}"
    );
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(rig.files().len(), 1, "QEMU may still write to them");
}

fn silence_statistics(rig: &Rig<Records>) {
    for _ in 0..10_000 {
        let error = FakeDaemon::error(38, 10, "cannot read statistics");
        rig.fake.fail_next(Call::JobStats, error);
    }
}

#[tokio::test]
async fn backup_without_statistics_is_aborted_on_request() {
    let rig = Rig::with(XML, STALLING).await;
    rig.start("bk1", Mode::Pull).await.unwrap();
    silence_statistics(&rig);
    rig.jobs.abort(AbortReason::Kill);
    let aborting = async {
        while rig.fake.count(Call::AbortJob) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, aborting).await.unwrap();
    rig.fake.kill_qemu(DOMAIN);
}

#[tokio::test]
async fn backup_without_statistics_is_abandoned() {
    let rig = Rig::with(XML, STALLING).await;
    rig.fake.set_backup_duration(SOON * 10);
    rig.start("bk1", Mode::Push).await.unwrap();
    silence_statistics(&rig);
    let record = rig.last().await;
    assert!(
        record.backup_msg.contains("libvirt does not end it"),
        "{record:?}"
    );
    assert!(rig.fake.count(Call::AbortJob) > 0);
}

#[tokio::test]
async fn daemon_that_was_started_again_still_tells_the_end() {
    let rig = Rig::new().await;
    rig.start("bk1", Mode::Pull).await.unwrap();
    rig.fake.stop_daemon(libvirt::CloseReason::Eof);
    rig.fake.start_daemon();
    rig.jobs.abort_backup(&rig.id("bk1")).await.unwrap();
    assert!(!rig.last().await.failed);
}

#[tokio::test]
async fn redefined_checkpoint_is_known_again() {
    let rig = Rig::new().await;
    let checkpoint = |time: Option<&str>| Checkpoint {
        name: "c1".into(),
        creation_time: time.map(|time| time.parse().unwrap()),
    };
    let time = Some("2026-11-21T13:13:00Z");
    let none = rig.jobs.redefine_checkpoint(&checkpoint(time)).await;
    let none = none.unwrap_err();
    assert!(none.is_invalid(), "{none}");
    rig.fake.set_bitmaps(DOMAIN, "/cbt/data.qcow2", &["c1"]);
    let untimed = rig.jobs.redefine_checkpoint(&checkpoint(None)).await;
    let untimed = untimed.unwrap_err();
    assert!(!untimed.is_invalid());
    assert_eq!(
        untimed.to_string(),
        "failed to redefine checkpoint c1: virError(Code=1, Domain=69, Message='internal error: \
         missing creationTime from existing checkpoint')"
    );
    rig.jobs
        .redefine_checkpoint(&checkpoint(time))
        .await
        .unwrap();
    assert_eq!(rig.fake.checkpoints(DOMAIN), ["c1"]);
    let damaged = FakeDaemon::error(109, 10, "checkpoint inconsistent: c1");
    rig.fake.fail_next(Call::RedefineCheckpoint, damaged);
    let invalid = rig.jobs.redefine_checkpoint(&checkpoint(time)).await;
    assert!(invalid.unwrap_err().is_invalid());
}
