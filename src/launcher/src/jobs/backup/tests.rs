//! Tests of backups on the fake libvirt.

mod quiesced_guest;
mod stalled_backup;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use kubevirt_api::domain_metadata::{MemoryDump, Migration};
use libvirt::fake::{Call, FakeDaemon};

use super::*;
use crate::jobs::running_test_vm::{DOMAIN, RunningVm, TEST_TIMEOUT};
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

impl RunningVm<Records> {
    async fn new() -> Self {
        RunningVm::with(XML, ProgressTimes::default()).await
    }

    async fn with(xml: &str, progress: ProgressTimes) -> Self {
        RunningVm::launch(xml, Records::default(), progress).await
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

    async fn last_record(&self) -> Backup {
        tokio::time::timeout(TEST_TIMEOUT, self.jobs.wait_until_ended())
            .await
            .unwrap();
        self.records.0.lock().unwrap().last().unwrap().clone()
    }

    fn files(&self) -> Vec<String> {
        let path = self.directory.path().join("vm1/bk1-2026-11-21_13-10-00");
        let Ok(entries) = fs::read_dir(path) else {
            return Vec::new();
        };
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

#[tokio::test]
async fn push_backup_ends_by_itself_and_creates_file_and_checkpoint() {
    let vm = RunningVm::new().await;
    vm.fake.set_backup_duration(Duration::from_millis(100));
    let started = vm.start("bk1", Mode::Push).await.unwrap();
    assert_eq!(started, JobStart::Started);
    let repeated = vm.start("bk1", Mode::Push).await.unwrap();
    assert_eq!(repeated, JobStart::AlreadyRunning);
    let record = vm.last_record().await;
    assert!(record.completed && !record.failed, "{record:?}");
    assert_eq!(record.quiesce_status, "Skipped");
    assert_eq!(record.checkpoint_name, "bk1-2026-11-21_13-10-00");
    assert_eq!(
        record.volumes,
        r#"[{"volumeName":"data","diskTarget":"vdc"}]"#
    );
    assert_eq!(vm.fake.checkpoints(DOMAIN), ["bk1-2026-11-21_13-10-00"]);
    assert_eq!(vm.files(), ["bk1-data.qcow2"]);
    let error = vm.start("bk1", Mode::Push).await.unwrap_err().to_string();
    assert!(error.contains("has ended at"), "{error}");
    assert_eq!(vm.fake.count(Call::BeginBackup), 1);
}

#[tokio::test]
async fn pull_backup_runs_until_it_is_aborted() {
    let vm = RunningVm::new().await;
    vm.start("bk1", Mode::Pull).await.unwrap();
    let other = vm.start("bk2", Mode::Push).await.unwrap_err();
    assert!(other.to_string().contains("bk1 already in progress"));
    assert!(vm.jobs.abort_backup(&vm.id("bk2")).await.is_err());
    assert_eq!(*vm.jobs.running().borrow(), Some(JobKind::Backup));
    vm.jobs.abort_backup(&vm.id("bk1")).await.unwrap();
    let record = vm.last_record().await;
    assert!(record.completed && !record.failed, "{record:?}");
    assert!(vm.jobs.abort_backup(&vm.id("bk1")).await.is_err());
}

#[tokio::test]
async fn failed_start_leaves_an_empty_record_and_no_directory() {
    let vm = RunningVm::new().await;
    let incremental = vm.request("bk1", Mode::Push, |fields| {
        fields.incremental = Some("nope".into());
    });
    let error = vm.jobs.start_backup(incremental).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "virError(Code=103, Domain=10, Message='Domain checkpoint not found: Checkpoint 'nope' for \
         incremental backup of disk 'vdc' not found')"
    );
    assert_eq!(vm.last_record().await, Backup::default());
    assert!(
        !vm.directory
            .path()
            .join("vm1/bk1-2026-11-21_13-10-00")
            .exists()
    );
    vm.start("bk1", Mode::Push).await.unwrap();
    assert!(vm.last_record().await.completed, "a retry succeeds");
}

#[tokio::test]
async fn domain_without_tracked_disks_is_not_backed_up() {
    let xml = "<domain type='kvm'><name>default_vm1</name></domain>";
    let vm = RunningVm::with(xml, ProgressTimes::default()).await;
    let error = vm.start("bk1", Mode::Push).await.unwrap_err().to_string();
    assert!(error.contains("no disk of the domain"), "{error}");
    assert_eq!(vm.fake.count(Call::BeginBackup), 0);
}

#[tokio::test]
async fn failed_push_backup_has_a_reason_and_no_files() {
    let vm = RunningVm::new().await;
    vm.fake.set_backup_duration(TEST_TIMEOUT * 10);
    vm.start("bk1", Mode::Push).await.unwrap();
    assert_eq!(vm.files().len(), 1);
    vm.fake.fail_backup(DOMAIN, "No space left on device");
    let record = vm.last_record().await;
    assert!(record.failed);
    assert_eq!(record.backup_msg, "No space left on device");
    let files_are_removed = async {
        while !vm.files().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, files_are_removed)
        .await
        .unwrap();
}

#[tokio::test]
async fn end_of_the_vm_completes_the_record() {
    for mode in [Mode::Push, Mode::Pull] {
        let vm = RunningVm::new().await;
        vm.fake.set_backup_duration(TEST_TIMEOUT * 10);
        vm.start("bk1", mode).await.unwrap();
        vm.jobs.abort(AbortReason::Kill);
        vm.fake.kill_qemu(DOMAIN);
        let record = vm.last_record().await;
        assert!(record.failed && record.completed, "{record:?}");
        assert!(record.backup_msg.contains("is being ended"), "{record:?}");
    }
}

#[tokio::test]
async fn end_of_a_backup_is_recorded_after_a_restart_of_the_daemon() {
    let vm = RunningVm::new().await;
    vm.start("bk1", Mode::Pull).await.unwrap();
    vm.fake.stop_daemon(libvirt::CloseReason::Eof);
    vm.fake.start_daemon();
    vm.jobs.abort_backup(&vm.id("bk1")).await.unwrap();
    assert!(!vm.last_record().await.failed);
}

#[tokio::test]
async fn checkpoint_is_redefined_if_its_bitmap_is_usable() {
    let vm = RunningVm::new().await;
    let checkpoint = |time: Option<&str>| Checkpoint {
        name: "c1".into(),
        creation_time: time.map(|time| time.parse().unwrap()),
    };
    let time = Some("2026-11-21T13:13:00Z");
    let without_bitmap = vm.jobs.redefine_checkpoint(&checkpoint(time)).await;
    let error = without_bitmap.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    vm.fake.set_bitmaps(DOMAIN, "/cbt/data.qcow2", &["c1"]);
    let untimed = vm.jobs.redefine_checkpoint(&checkpoint(None)).await;
    let untimed = untimed.unwrap_err();
    assert!(!untimed.is_invalid());
    assert_eq!(
        untimed.to_string(),
        "failed to redefine checkpoint c1: virError(Code=1, Domain=69, Message='internal error: \
         missing creationTime from existing checkpoint')"
    );
    vm.jobs
        .redefine_checkpoint(&checkpoint(time))
        .await
        .unwrap();
    assert_eq!(vm.fake.checkpoints(DOMAIN), ["c1"]);
    let damaged = FakeDaemon::error(109, 10, "checkpoint inconsistent: c1");
    vm.fake.fail_next(Call::RedefineCheckpoint, damaged);
    let invalid = vm.jobs.redefine_checkpoint(&checkpoint(time)).await;
    assert!(invalid.unwrap_err().is_invalid());
}
