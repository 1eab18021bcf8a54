//! Hooks with granted directories, whose content the VM's owner may choose.
mod file_streams;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fixture::handwritten_guest::HandwrittenGuest;
use crate::fixture::{HookDirs, XML, invocation};
use hook_host::record::{Record, RecordConfig};
use hook_host::replay::{ReplayError, replay};
use hook_host::wasm::LoadOptions;
use hook_host::{Chain, CollectConfig, HookError, Limits, PolicySource, collect};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The functions of WASI preview 1 that the guests call.
const PREVIEW1: &str = r#"
    (import "wasi_snapshot_preview1" "path_open"
        (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_readdir"
        (func $list (param i32 i32 i32 i64 i32) (result i32)))"#;
/// The name `file` in the guest's memory, and a counter of streams.
const FILE_NAME_AND_COUNTER: &str =
    r#"(data (i32.const 512) "file") (global $streams (mut i32) (i32.const 0))"#;

/// Opens `file` in the first directory. Traps unless the answer is `$errno`.
macro_rules! open {
    ($errno:literal) => {
        concat!(
            "(if (i32.ne (i32.const ",
            $errno,
            ") (call $open (i32.const 3) (i32.const 1) (i32.const 512) (i32.const 4) (i32.const 0)
                (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64))) (then unreachable))"
        )
    };
}

/// Lists the first directory. Traps unless the answer is `$errno`.
macro_rules! list {
    ($errno:literal) => {
        concat!(
            "(if (i32.ne (i32.const ",
            $errno,
            ") (call $list (i32.const 3) (i32.const 8192) (i32.const 4096) (i64.const 0)
                (i32.const 64))) (then unreachable))"
        )
    };
}

/// A guest that wishes for a directory.
fn guest(dir: &Path, define: &'static str) -> HandwrittenGuest {
    let description = format!(
        r#"{{"name": "reader", "hookPoints": [{{"name": "OnDefineDomain"}}],
            "wishes": {{"paths": ["/domain/**"], "dirs": ["{}"]}}}}"#,
        dir.display()
    );
    HandwrittenGuest {
        imports: PREVIEW1,
        fields: FILE_NAME_AND_COUNTER,
        define,
        description: description.leak(),
        ..HandwrittenGuest::default()
    }
}

/// A chain of one module, with an operator's policy that allows a directory, and optionally a `hook.yaml`.
async fn chain(module: &[u8], allowed: &Path, yaml: Option<&str>) -> Chain {
    recording_chain(module, allowed, yaml, None).await
}

/// As [`chain`], and the runs are recorded.
async fn recording_chain(
    module: &[u8],
    allowed: &Path,
    yaml: Option<&str>,
    record: Option<RecordConfig>,
) -> Chain {
    let dirs = HookDirs::new();
    if let Some(yaml) = yaml {
        dirs.put_modified_an_hour_ago("h", "hook.yaml", yaml.as_bytes());
    }
    dirs.put_modified_an_hour_ago("h", "m.wasm", module);
    let policy = dirs.at("../policy", "p.yaml");
    let allow = format!(
        "allow: {{paths: ['/domain/**'], dirs: ['{}']}}\n",
        allowed.display()
    );
    std::fs::write(&policy, allow).unwrap();
    let config = CollectConfig {
        policy: PolicySource::File(policy),
        record,
        limits: Limits {
            call_deadline: Duration::from_secs(60),
            ..Limits::default()
        },
        ..dirs.config(1)
    };
    collect(config).await.unwrap()
}

async fn define(chain: &Chain) -> Result<(), HookError> {
    let defined = chain
        .on_define_domain(&invocation(), "{}", XML.into())
        .await;
    defined.map(|_| ())
}

/// A temporary directory, and its path without symbolic links.
fn temporary_dir() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

#[tokio::test]
async fn a_file_is_opened_and_a_pipe_is_not() {
    let (_temporary, dir) = temporary_dir();
    let file = dir.join("file");
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // EACCES. If the pipe were opened, the call would end at its deadline, and its thread would never end.
    let opens = chain(&guest(&dir, open!("2")).module(), &dir, None).await;
    for _ in 0..3 {
        define(&opens).await.unwrap();
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "content").unwrap();
    let opens = chain(&guest(&dir, open!("0")).module(), &dir, None).await;
    define(&opens).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    symlink("/etc/passwd", &file).unwrap();
    // EPERM.
    let opens = chain(&guest(&dir, open!("63")).module(), &dir, None).await;
    define(&opens).await.unwrap();
}

#[tokio::test]
async fn a_directory_of_thousands_of_entries_is_not_listed() {
    let (_temporary, dir) = temporary_dir();
    for n in 0..4096 {
        std::fs::write(dir.join(n.to_string()), "").unwrap();
    }
    let lists = chain(&guest(&dir, list!("0")).module(), &dir, None).await;
    define(&lists).await.unwrap();
    std::fs::write(dir.join("one-more"), "").unwrap();
    // ENOMEM.
    let lists = chain(&guest(&dir, list!("48")).module(), &dir, None).await;
    define(&lists).await.unwrap();
}

#[tokio::test]
async fn links_out_of_the_operators_directories_are_refused() {
    let (_temporary, root) = temporary_dir();
    let volume = root.join("vol");
    std::fs::create_dir_all(volume.join("..data_1/inside")).unwrap();
    std::fs::write(volume.join("..data_1/inside/file"), "content").unwrap();
    // The layout in which the kubelet writes ConfigMaps.
    symlink("..data_1", volume.join("..data")).unwrap();
    symlink("..data/inside", volume.join("inside")).unwrap();
    symlink("/etc", volume.join("absolute")).unwrap();
    symlink("../../../../etc", volume.join("relative")).unwrap();
    let module = guest(&volume.join("inside"), open!("0")).module();
    define(&chain(&module, &root, None).await).await.unwrap();
    for link in ["absolute", "relative"] {
        let link = volume.join(link);
        let wish = guest(&link, "").module();
        let narrowed = guest(&root, "").module();
        let yaml = format!("allow: {{dirs: ['{}']}}\n", link.display());
        for (module, yaml) in [(wish, None), (narrowed, Some(yaml.as_str()))] {
            let refused = define(&chain(&module, &root, yaml).await)
                .await
                .unwrap_err();
            let refused = refused.to_string();
            let place = format!(
                "{} cannot be opened within {}",
                link.display(),
                root.display()
            );
            assert!(refused.contains(&place), "{refused}");
        }
    }
}

#[tokio::test]
async fn a_replay_follows_no_link_out_of_the_recorded_directories() {
    let (_temporary, root) = temporary_dir();
    let (dir, records) = (root.join("allowed/inside"), root.join("records"));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("file"), "content").unwrap();
    let module = guest(&dir, open!("0")).module();
    let config = RecordConfig {
        dir: records.clone(),
        secrets: true,
    };
    let allowed = root.join("allowed");
    let chain = recording_chain(&module, &allowed, None, Some(config)).await;
    define(&chain).await.unwrap();
    let file = std::fs::read_dir(&records).unwrap().next().unwrap();
    let mut record = Record::read(&file.unwrap().path()).unwrap();
    assert_eq!(record.dir_roots, [allowed]);
    // A replay refuses a longer deadline than a hook.yaml can set.
    record.limits.deadline_ms = 10_000;
    let path = root.join("m.wasm");
    std::fs::write(&path, &module).unwrap();
    let replayed =
        async |record: &Record| replay(record, &path, false, LoadOptions::default()).await;
    assert!(replayed(&record).await.unwrap().difference.is_none());
    // On the machine of the replay the directory is a link.
    std::fs::rename(&dir, root.join("outside")).unwrap();
    symlink("../outside", &dir).unwrap();
    let refused = replayed(&record)
        .await
        .unwrap()
        .difference
        .outcome
        .unwrap()
        .1;
    assert!(refused.contains("cannot be opened within"), "{refused}");
    let older = Record {
        dir_roots: Vec::new(),
        ..record
    };
    let Err(ReplayError::Record(error)) = replayed(&older).await else {
        panic!("the record does not name the operator's directory");
    };
    assert!(
        error.to_string().contains("does not tell which directory"),
        "{error}"
    );
}

/// Opens `path` in the first directory, with links followed. Traps unless the answer is `errno`.
fn opening(dir: &Path, path: &str, errno: u16) -> Vec<u8> {
    let name = format!(r#"(data (i32.const 512) "{path}")"#);
    let define = format!(
        "(if (i32.ne (i32.const {errno}) (call $open (i32.const 3) (i32.const 1) (i32.const 512)
            (i32.const {}) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)))
            (then unreachable))",
        path.len()
    );
    let guest = HandwrittenGuest {
        fields: name.leak(),
        ..guest(dir, define.leak())
    };
    guest.module()
}

#[tokio::test]
async fn no_path_leads_out_of_a_granted_directory() {
    const OK: u16 = 0;
    const ENOTDIR: u16 = 54;
    const EPERM: u16 = 63;
    let (_temporary, root) = temporary_dir();
    let granted = root.join("g");
    std::fs::create_dir_all(granted.join("sub")).unwrap();
    std::fs::create_dir(root.join("outdir")).unwrap();
    for (file, content) in [
        ("g/f", "INSIDE"),
        ("secret-outside", "SECRET"),
        ("outdir/x", "SECRET"),
    ] {
        std::fs::write(root.join(file), content).unwrap();
    }
    let absolute = |name: &str| root.join(name).display().to_string();
    for (link, target) in [
        ("l1", "../secret-outside".to_owned()),
        ("l2", absolute("secret-outside")),
        ("l3", "../secret-outside/".to_owned()),
        ("d1", "../outdir".to_owned()),
        ("d2", "../outdir/".to_owned()),
        ("d3", absolute("outdir/")),
        ("d4", "../outdir/.".to_owned()),
        ("p", "/proc/self/environ".to_owned()),
        ("fd", "/proc/self/fd/".to_owned()),
        ("dd", "..".to_owned()),
    ] {
        symlink(target, granted.join(link)).unwrap();
    }
    for (path, errno) in [
        ("f", OK),
        ("sub/../f", OK),
        ("l1", EPERM),
        ("l2", EPERM),
        ("l3", EPERM),
        ("d1/x", EPERM),
        ("d2/x", EPERM),
        ("d3/x", EPERM),
        ("d4/x", EPERM),
        ("d2//x", EPERM),
        ("d2/./x", EPERM),
        ("../secret-outside", EPERM),
        ("/etc/passwd", EPERM),
        ("dd/secret-outside", EPERM),
        ("sub/../../secret-outside", EPERM),
        ("p", EPERM),
        ("fd/3", EPERM),
        ("./d2/../f", EPERM),
        ("d2/../outdir/x", EPERM),
        ("d2/", EPERM),
        ("f/", ENOTDIR),
    ] {
        let opens = chain(&opening(&granted, path, errno), &granted, None).await;
        let opened = define(&opens).await;
        assert!(opened.is_ok(), "{path}: {opened:?}");
    }
}
