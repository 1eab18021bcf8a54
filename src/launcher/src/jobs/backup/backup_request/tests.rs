//! Tests of the validation of backup requests.

use super::*;

fn fields() -> BackupFields {
    BackupFields {
        id: BackupId {
            name: "bk1".into(),
            start_time: Some("2026-11-21T15:10:00+02:00".parse().unwrap()),
        },
        vmi_name: "vm1".into(),
        mode: Mode::Push,
        target_path: Some("/run/kubevirt/bk".into()),
        incremental: Some(String::new()),
        skip_quiesce: false,
        persistent_tpm: false,
    }
}

#[test]
fn checkpoint_and_directory_are_named_by_the_time_in_utc() {
    let request = BackupRequest::new(fields()).unwrap();
    assert_eq!(request.checkpoint(), "bk1-2026-11-21_13-10-00");
    assert_eq!(
        request.directory(),
        Path::new("/run/kubevirt/bk/vm1/bk1-2026-11-21_13-10-00")
    );
    let recorded = request.id().recorded_time();
    assert_eq!(recorded.as_deref(), Some("2026-11-21T13:10:00Z"));
    assert_eq!(
        request.incremental(),
        None,
        "an empty name means a full backup"
    );
}

#[test]
fn error_names_the_invalid_field() {
    let error = |edit: fn(&mut BackupFields)| {
        let mut fields = fields();
        edit(&mut fields);
        BackupRequest::new(fields).unwrap_err().to_string()
    };
    assert!(error(|fields| fields.id.start_time = None).contains("backupStartTime"));
    assert!(error(|fields| fields.id.name.clear()).contains("backupName is missing"));
    for name in ["../x", "a/b", ".", "a\0b", "-a", &"x".repeat(300)] {
        let mut fields = fields();
        fields.id.name = name.to_owned();
        let error = BackupRequest::new(fields).unwrap_err().to_string();
        assert!(error.contains("backupName"), "{error}");
    }
    assert!(error(|fields| fields.target_path = None).contains("targetPath is missing"));
    assert!(error(|fields| fields.target_path = Some("bk".into())).contains("\"bk\""));
    assert!(error(|fields| fields.vmi_name = "a/b".into()).contains("VM name"));
}

#[test]
fn private_key_is_not_printed() {
    let request = ExportRequest {
        id: fields().id,
        address: "a".into(),
        server_name: "b".into(),
        ca: "c".into(),
        certificate: "d".into(),
        key: "SECRET".into(),
    };
    assert!(!format!("{request:?}").contains("SECRET"));
}
