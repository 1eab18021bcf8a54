//! Plans of push and pull backups, and redefined checkpoints.
use super::*;

const DOMAIN: &str = "<domain type='kvm'><name>default_vm1</name><devices>\
    <disk type='file' device='disk'><source file='/d/empty.qcow2'/><target dev='vda' bus='virtio'/>\
    <alias name='ua-empty'/></disk>\
    <disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/cbt/data.qcow2'>\
    <dataStore type='file'><format type='raw'/><source file='/d/disk.img'/></dataStore></source>\
    <target dev='vdc' bus='virtio'/><alias name='ua-Data&amp;1'/></disk>\
    <disk type='file' device='cdrom'><alias name='ua-none'/></disk>\
    </devices></domain>";

fn plan(mode: &BackupMode, incremental: Option<&str>) -> BackupPlan {
    let settings = BackupSettings {
        name: "bk1",
        checkpoint: "bk1-2026-11-21_13-10-00",
        incremental,
        mode,
        directory: Path::new("/run/kubevirt/Bk/vm1/bk1-2026-11-21_13-10-00"),
    };
    BackupPlan::new(
        &crate::domain_spec_from_xml::parse(DOMAIN).unwrap(),
        &settings,
    )
}

fn flatten(xml: &str) -> String {
    xml.replace(['\n', '\t'], "").replace('"', "'")
}

#[test]
fn push_backup_writes_tracked_disks_into_files() {
    let plan = plan(&BackupMode::Push, None);
    assert_eq!(
        flatten(&plan.backup_xml),
        "<domainbackup mode='push'><disks><disk name='vda' backup='no'></disk>\
         <disk name='vdc' backup='yes' type='file'>\
         <target file='/run/kubevirt/Bk/vm1/bk1-2026-11-21_13-10-00/bk1-Data&amp;1.qcow2'></target></disk>\
         </disks></domainbackup>"
    );
    assert_eq!(
        flatten(&plan.checkpoint_xml),
        "<domaincheckpoint><name>bk1-2026-11-21_13-10-00</name><disks>\
         <disk name='vda' checkpoint='no'></disk><disk name='vdc' checkpoint='bitmap'></disk></disks>\
         </domaincheckpoint>"
    );
    assert_eq!(
        serde_json::to_string(&plan.volumes).unwrap(),
        r#"[{"volumeName":"Data&1","diskTarget":"vdc"}]"#
    );
}

#[test]
fn pull_backup_exports_each_volume_with_its_bitmap() {
    let mode = BackupMode::Pull {
        socket: "/s/backup-nbd-sock".into(),
    };
    let xml = flatten(&plan(&mode, Some("bk0")).backup_xml);
    assert!(
        xml.starts_with(
            "<domainbackup mode='pull'><incremental>bk0</incremental>\
             <server transport='unix' socket='/s/backup-nbd-sock'></server><disks>"
        ),
        "{xml}"
    );
    let disk = "<disk name='vdc' backup='yes' type='file' exportname='Data&amp;1' \
                exportbitmap='bk1-2026-11-21_13-10-00'><scratch file=";
    assert!(xml.contains(disk), "{xml}");
}

#[test]
fn checkpoint_is_redefined_for_disks_that_have_its_bitmap() {
    let domain = crate::domain_spec_from_xml::parse(DOMAIN).unwrap();
    let redefine =
        |file: &'static str, time| redefined_checkpoint(&domain, "c", time, |path| path == file);
    assert_eq!(redefine("/d/empty.qcow2", None), None, "not tracked");
    assert_eq!(
        flatten(&redefine("/cbt/data.qcow2", Some(1_763_730_780)).unwrap()),
        "<domaincheckpoint><name>c</name><creationTime>1763730780</creationTime><disks>\
         <disk name='vdc' checkpoint='bitmap'></disk></disks></domaincheckpoint>"
    );
    assert!(!redefine("/cbt/data.qcow2", None).unwrap().contains("Time"));
}
