//! The daemons as they are installed here, and what is said when they are not.
//!
//! The real ones run in namespaces of their own: this test binary starts itself again inside.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::*;

const POD: &str = "VIRT_LAUNCHER_TEST_POD";

fn config(root: &Path, path: &[&Path]) -> DaemonsConfig {
    let places = Places::kubevirt(true, "uid").below(root);
    let mut config = DaemonsConfig::new(&places, "default_vm", "", |_| None);
    config.etc = root.join("etc/libvirt");
    config.path = path.iter().map(PathBuf::from).collect();
    config
}

fn program(directory: &Path, name: &str, script: &str) {
    let text = directory.join("text");
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    // Another process writes it: children that other tests fork may hold open what this one does.
    let mut install = Command::new("install");
    install
        .args(["-m", "755"])
        .args([text, directory.join(name)]);
    assert!(install.status().unwrap().success());
}

#[tokio::test]
async fn without_a_daemon_the_error_names_what_to_install() {
    let root = tempfile::tempdir().unwrap();
    let error = start(&config(root.path(), &[root.path()]))
        .await
        .unwrap_err();
    assert!(matches!(error, DaemonError::NoDaemon { .. }));
    let text = error.to_string();
    assert!(
        text.contains("virtqemud") && text.contains("libvirt-daemon"),
        "{text}"
    );
    assert!(text.contains(root.path().to_str().unwrap()), "{text}");
}

#[tokio::test]
async fn without_qemu_the_error_names_what_to_install() {
    let root = tempfile::tempdir().unwrap();
    program(root.path(), "libvirtd", "sleep 60");
    let error = start(&config(root.path(), &[root.path()]))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("qemu-kvm") && text.contains("qemu-system-"),
        "{text}"
    );
}

#[tokio::test]
async fn a_daemon_that_gives_up_is_quoted() {
    let root = tempfile::tempdir().unwrap();
    program(root.path(), "virtqemud", "echo no such user >&2; exit 3");
    program(root.path(), "qemu-kvm", "");
    let error = start(&config(root.path(), &[root.path()]))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, DaemonError::Ended { .. }), "{text}");
    assert!(
        text.contains("no such user") && text.contains("exit status: 3"),
        "{text}"
    );
}

#[tokio::test]
async fn a_daemon_that_never_listens_is_given_up() {
    let root = tempfile::tempdir().unwrap();
    program(root.path(), "virtqemud", "exec sleep 60");
    program(root.path(), "qemu-kvm", "");
    let mut config = config(root.path(), &[root.path()]);
    config.ready_within = Duration::from_millis(100);
    let error = start(&config).await.unwrap_err();
    assert!(matches!(error, DaemonError::NotReady { .. }), "{error}");
}

#[test]
fn virtqemud_is_preferred_wherever_it_is() {
    let root = tempfile::tempdir().unwrap();
    let (first, second) = (root.path().join("1"), root.path().join("2"));
    for directory in [&first, &second] {
        fs::create_dir(directory).unwrap();
    }
    program(&first, "libvirtd", "");
    program(&first, "qemu-kvm", "");
    program(&second, "virtqemud", "");
    let found = Binaries::find(&[first.clone(), second.clone()]).unwrap();
    assert_eq!(found.hypervisor, second.join("virtqemud"));
    assert_eq!(found.socket_name(), "virtqemud-sock");
    fs::remove_file(second.join("virtqemud")).unwrap();
    let found = Binaries::find(&[first.clone(), second]).unwrap();
    assert_eq!(found.hypervisor, first.join("libvirtd"));
    assert_eq!(found.socket_name(), "libvirt-sock");
}

#[test]
fn a_session_daemons_files_lie_where_its_environment_points() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path(), &[]);
    config.log_filters = Some("1:qemu".into());
    config.shared_filesystems = vec!["/a".into(), "/b".into()];
    fs::create_dir_all(&config.etc).unwrap();
    fs::write(config.etc.join("qemu.conf"), "vnc_listen = \"::\"\n").unwrap();
    let files = configuration::write(&config).unwrap();
    let environment = environment(&config.places);
    let home = |name| {
        environment
            .iter()
            .find(|(key, _)| *key == name)
            .unwrap()
            .1
            .clone()
    };
    assert_eq!(home("XDG_RUNTIME_DIR"), root.path().join("var/run"));
    let qemu = fs::read_to_string(home("XDG_CONFIG_HOME").join("libvirt/qemu.conf")).unwrap();
    assert!(qemu.starts_with("vnc_listen = \"::\"\n"), "{qemu}");
    assert!(
        qemu.contains("shared_filesystems = [ \"/a\", \"/b\" ]\n"),
        "{qemu}"
    );
    assert!(
        !qemu.contains("0.0.0.0") && !qemu.contains("user ="),
        "{qemu}"
    );
    let daemon = fs::read_to_string(files.hypervisor).unwrap();
    assert!(daemon.contains("log_outputs = \"1:stderr\"\n"), "{daemon}");
    assert!(daemon.contains("log_filters = \"1:qemu\"\n"), "{daemon}");
}

#[test]
fn real_session_daemons_serve_are_restarted_and_end() {
    run_inside("exec setpriv --reuid=107 --regid=107 --clear-groups \"$0\" \"$@\"");
}

/// System daemons have fixed paths: they get empty ones, and no /dev/kvm, which they would probe
/// for minutes where it does not work.
#[test]
fn real_system_daemons_serve_are_restarted_and_end() {
    run_inside(
        "for each in /run /var/log/libvirt /var/lib/libvirt /var/cache/libvirt /etc/libvirt; do \
           mkdir -p $each && mount -t tmpfs none $each || exit 1; \
         done; \
         if [ -e /dev/kvm ]; then mount --bind /dev/null /dev/kvm; fi; \
         exec \"$0\" \"$@\"",
    );
}

/// Runs [`inside_a_pod`] in namespaces of its own, prepared by a shell that becomes it.
fn run_inside(prepare: &str) {
    let root = tempfile::tempdir().unwrap();
    assert!(
        rustix::process::geteuid().is_root() && Binaries::find(&installed()).is_ok(),
        "this needs root, QEMU and virtqemud or libvirtd: 'make test' sets it up"
    );
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = root.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let status = Command::new("unshare")
        .args(["-m", "-p", "-f", "--kill-child", "--mount-proc"])
        // The first process reaps what the daemons leave behind.
        .args(["sh", "-c", "sh -c \"$@\"; exit $?", "init", prepare])
        .arg(&program)
        .args(["--exact", "daemons::tests::inside_a_pod"])
        .args(["--ignored", "--nocapture"])
        .env(POD, root.path())
        .stdin(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

fn installed() -> Vec<PathBuf> {
    DaemonsConfig::new(&Places::kubevirt(true, ""), "", "", |_| None).path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the two tests above, in namespaces"]
async fn inside_a_pod() {
    let root = PathBuf::from(std::env::var_os(POD).unwrap());
    let mut config = if rustix::process::geteuid().is_root() {
        DaemonsConfig::new(&Places::kubevirt(false, "uid"), "default_vm", "", |_| None)
    } else {
        fs::create_dir_all(root.join("var")).unwrap();
        fs::create_dir_all(root.join("run")).unwrap();
        symlink("../run", root.join("var/run")).unwrap();
        config(&root, &[])
    };
    config.path = installed();

    let began = Instant::now();
    let daemons = start(&config).await.unwrap();
    eprintln!("daemons ready after {:?}", began.elapsed());
    asks_version(daemons.uri()).await;
    let first = daemons.pid().unwrap();
    let binaries = Binaries::find(&config.path).unwrap();
    let socket = config.places.libvirt_run.join(binaries.socket_name());
    is_child_of_mine(first);

    let mut restarts = daemons.restarts();
    Command::new("kill")
        .args(["-9", &first.to_string()])
        .status()
        .unwrap();
    restarts.changed().await.unwrap();
    assert_eq!(*restarts.borrow(), 1);
    while tokio::net::UnixStream::connect(&socket).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    asks_version(daemons.uri()).await;
    let second = daemons.pid().unwrap();
    assert_ne!(first, second);

    boots_and_logs(daemons.uri(), &config.places.qemu_log("default_vm")).await;
    daemons.shutdown().await;
    assert!(!Path::new("/proc").join(second.to_string()).exists());
}

async fn asks_version(uri: &str) {
    let uri = uri.to_owned();
    let version = tokio::task::spawn_blocking(move || libvirt::connect(&uri)?.version());
    assert!(version.await.unwrap().unwrap() > libvirt::Version(0));
}

fn is_child_of_mine(pid: u32) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(
        status.contains(&format!("PPid:\t{}\n", std::process::id())),
        "{status}"
    );
    assert!(status.starts_with("Name:\tvirtqemud\n") || status.starts_with("Name:\tlibvirtd\n"));
}

/// QEMU starts under this configuration, and its log is where it is looked for.
async fn boots_and_logs(uri: &str, log: &Path) {
    const XML: &str = "<domain type='qemu'><name>default_vm</name><memory unit='MiB'>32</memory>\
        <os><type arch='x86_64' machine='q35'>hvm</type></os></domain>";
    let uri = uri.to_owned();
    let boot = tokio::task::spawn_blocking(move || {
        let guest = libvirt::connect(&uri)?.define(XML)?;
        guest.start(libvirt::Start::RUNNING)?;
        guest.destroy(libvirt::Destroy::Forceful)?;
        guest.undefine(libvirt::Undefine::KEEP)
    });
    boot.await.unwrap().unwrap();
    let text = fs::read_to_string(log).unwrap();
    assert!(text.contains("default_vm"), "{text}");
}
