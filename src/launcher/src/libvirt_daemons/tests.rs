//! The daemons as they are installed here, and the errors when they are not.
//!
//! The real daemons run in namespaces of their own: this test binary starts itself again inside.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::*;

const POD: &str = "VIRT_LAUNCHER_TEST_POD";

fn config(root: &Path, path: &[&Path]) -> DaemonsConfig {
    let paths = Paths::kubevirt(true, "uid").below(root);
    let mut config = DaemonsConfig::new(&paths, "default_vm", "", |_| None);
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
async fn missing_daemon_error_names_the_package() {
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
async fn missing_qemu_error_names_the_package() {
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
async fn failed_daemon_is_reported_with_its_output() {
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
async fn daemon_that_never_listens_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    program(root.path(), "virtqemud", "exec sleep 60");
    program(root.path(), "qemu-kvm", "");
    let mut config = config(root.path(), &[root.path()]);
    config.ready_within = Duration::from_millis(100);
    let error = start(&config).await.unwrap_err();
    assert!(matches!(error, DaemonError::NotReady { .. }), "{error}");
}

#[tokio::test]
async fn stopped_daemons_do_not_delay_the_end() {
    let root = tempfile::tempdir().unwrap();
    let socket = root.path().join("var/run/libvirt/virtqemud-sock");
    program(
        root.path(),
        "virtqemud",
        &format!(
            "exec python3 -c 'import os, socket, signal; s = socket.socket(socket.AF_UNIX); \
             s.bind(\"{}\"); s.listen(); os.kill(os.getpid(), signal.SIGSTOP)'",
            socket.display()
        ),
    );
    program(root.path(), "qemu-kvm", "");
    let daemons = start(&config(root.path(), &[root.path()])).await.unwrap();
    let pid = daemons.pid().unwrap();
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !stat().contains(") T ") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let began = Instant::now();
    daemons.shutdown().await;
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn virtqemud_is_preferred() {
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
fn session_daemons_files_are_below_its_environments_directories() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path(), &[]);
    config.log_filters = Some("1:qemu".into());
    config.shared_filesystems = vec!["/a".into(), "/b".into()];
    fs::create_dir_all(&config.etc).unwrap();
    fs::write(config.etc.join("qemu.conf"), "vnc_listen = \"::\"\n").unwrap();
    let files = configuration::write(&config).unwrap();
    let environment = environment(&config.paths);
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
    assert!(daemon.contains("max_client_requests = 32\n"), "{daemon}");
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
        .args(["--exact", "libvirt_daemons::tests::inside_a_pod"])
        .args(["--ignored", "--nocapture"])
        .env(POD, root.path())
        .stdin(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

fn installed() -> Vec<PathBuf> {
    DaemonsConfig::new(&Paths::kubevirt(true, ""), "", "", |_| None).path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the two tests above, in namespaces"]
async fn inside_a_pod() {
    let root = PathBuf::from(std::env::var_os(POD).unwrap());
    let mut config = if rustix::process::geteuid().is_root() {
        DaemonsConfig::new(&Paths::kubevirt(false, "uid"), "default_vm", "", |_| None)
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
    let socket = config.paths.libvirt_run.join(binaries.socket_name());
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

    boots_and_logs(daemons.uri(), &config.paths.qemu_log("default_vm")).await;
    hung_calls_leave_the_connection_usable(daemons.uri(), &config.paths).await;
    start_waits_for_virtlogd_and_logs_go_on(&daemons, &config.paths).await;
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
        let domain = libvirt::connect(&uri)?.define(XML)?;
        domain.start(libvirt::StartOptions::RUNNING)?;
        domain.destroy(libvirt::DestroyMode::Forceful)?;
        domain.undefine(libvirt::UndefineOptions::KEEP)
    });
    boot.await.unwrap().unwrap();
    let text = fs::read_to_string(log).unwrap();
    assert!(text.contains("default_vm"), "{text}");
}

/// Ten calls wait for a QEMU that is stopped; an eleventh on the same connection is answered.
async fn hung_calls_leave_the_connection_usable(uri: &str, paths: &Paths) {
    let uri = uri.to_owned();
    let connect = move || libvirt::connect(&uri).unwrap();
    let connection = tokio::task::spawn_blocking(connect).await.unwrap();
    let domain = {
        let connection = std::sync::Arc::clone(&connection);
        let boot = move || {
            let domain = connection
                .define(&plain_domain("<devices><serial type='pty'/></devices>"))
                .unwrap();
            domain.start(libvirt::StartOptions::RUNNING).unwrap();
            domain
        };
        tokio::task::spawn_blocking(boot).await.unwrap()
    };
    let qemu = qemu_pid(paths);
    signal(qemu, "STOP");
    let hung: Vec<_> = (0..10)
        .map(|_| {
            let domain = std::sync::Arc::clone(&domain);
            tokio::task::spawn_blocking(move || domain.suspend().is_ok())
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    let version = tokio::task::spawn_blocking(move || connection.version().unwrap());
    version.await.unwrap();
    let took = began.elapsed();
    assert!(hung.iter().all(|call| !call.is_finished()), "they hang");
    signal(qemu, "CONT");
    for call in hung {
        call.await.unwrap();
    }
    let end = move || {
        domain.destroy(libvirt::DestroyMode::Forceful).unwrap();
        domain.undefine(libvirt::UndefineOptions::KEEP).unwrap();
    };
    tokio::task::spawn_blocking(end).await.unwrap();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// virtlogd is killed before a start, which succeeds nevertheless, and again while the VM runs.
async fn start_waits_for_virtlogd_and_logs_go_on(daemons: &Daemons, paths: &Paths) {
    let Some(logger) = &daemons.logger else {
        eprintln!("NOT TESTED: there is no virtlogd");
        return;
    };
    let log = paths.vmi_private().join("virt-serial0-log");
    fs::create_dir_all(paths.vmi_private()).unwrap();
    let serial = format!(
        "<devices><serial type='pty'><target port='0'/><log file='{}' append='on'/></serial></devices>",
        log.display()
    );
    let first = logger.daemon.pid().unwrap();
    signal(first, "KILL");
    let uri = daemons.uri().to_owned();
    let boot = move || {
        let domain = libvirt::connect(&uri)
            .unwrap()
            .define(&plain_domain(&serial))
            .unwrap();
        domain.start(libvirt::StartOptions::RUNNING).unwrap();
        domain
    };
    let domain = tokio::task::spawn_blocking(boot).await.unwrap();
    let written = || {
        fs::read_to_string(&log)
            .unwrap_or_default()
            .matches("No bootable")
            .count()
    };
    eventually(|| written() == 1).await;
    let second = logger.daemon.pid().unwrap();
    assert_ne!(first, second);
    assert_eq!(virtlogds(), 1);

    signal(second, "KILL");
    eventually(|| logger.daemon.pid().is_some_and(|pid| pid != second)).await;
    eventually(|| {
        broken_log_pipes::broken(Path::new(&format!("/proc/{}", qemu_pid(paths))))
            .unwrap()
            .is_empty()
    })
    .await;
    let reset = {
        let domain = std::sync::Arc::clone(&domain);
        move || domain.reset().unwrap()
    };
    tokio::task::spawn_blocking(reset).await.unwrap();
    eventually(|| written() == 2).await;
    assert_eq!(virtlogds(), 1);
    assert!(logger.lost.borrow().is_none());
    let end = move || {
        domain.destroy(libvirt::DestroyMode::Forceful).unwrap();
        domain.undefine(libvirt::UndefineOptions::KEEP).unwrap();
    };
    tokio::task::spawn_blocking(end).await.unwrap();
}

fn plain_domain(more: &str) -> String {
    format!(
        "<domain type='qemu'><name>default_vm</name><memory unit='MiB'>32</memory>\
         <os><type arch='x86_64' machine='q35'>hvm</type><bios useserial='yes'/></os>{more}</domain>"
    )
}

fn qemu_pid(paths: &Paths) -> u32 {
    let text = fs::read_to_string(paths.qemu_pid_file("default_vm")).unwrap();
    text.trim().parse().unwrap()
}

fn signal(pid: u32, name: &str) {
    let mut kill = Command::new("kill");
    assert!(
        kill.args([format!("-{name}"), pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// How many run; this is a pid namespace of its own.
fn virtlogds() -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let status = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("status")).ok();
    processes
        .filter_map(status)
        .filter(|status| status.starts_with("Name:\tvirtlogd\n") && !status.contains("State:\tZ"))
        .count()
}

async fn eventually(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 30 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The paths of KubeVirt's image (CentOS Stream), of Fedora and of Debian.
#[test]
fn daemons_are_found_where_distributions_have_them() {
    let layouts: [(&[&str], &str, &str); 3] = [
        (
            &[
                "usr/sbin/virtqemud",
                "usr/sbin/virtlogd",
                "usr/libexec/qemu-kvm",
            ],
            "usr/sbin/virtqemud",
            "usr/libexec/qemu-kvm",
        ),
        (
            &[
                "usr/bin/virtqemud",
                "usr/bin/virtlogd",
                "usr/bin/qemu-system-x86_64",
                "usr/bin/qemu-kvm",
            ],
            "usr/bin/virtqemud",
            "usr/bin/qemu-kvm",
        ),
        (
            &[
                "usr/sbin/libvirtd",
                "usr/sbin/virtlogd",
                "usr/bin/qemu-system-x86_64",
                "usr/bin/qemu-system-aarch64",
            ],
            "usr/sbin/libvirtd",
            if cfg!(target_arch = "x86_64") {
                "usr/bin/qemu-system-x86_64"
            } else {
                "usr/bin/qemu-system-aarch64"
            },
        ),
    ];
    for (files, hypervisor, qemu) in layouts {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            program(
                path.parent().unwrap(),
                path.file_name().unwrap().to_str().unwrap(),
                "",
            );
        }
        let paths = Paths::kubevirt(true, "uid");
        let searched = DaemonsConfig::new(&paths, "ns_vm", "", |_| None).path;
        let below_root = |path: &PathBuf| root.path().join(path.strip_prefix("/").unwrap());
        let searched: Vec<_> = searched.iter().map(below_root).collect();
        let found = Binaries::find(&searched).unwrap();
        assert_eq!(found.hypervisor, root.path().join(hypervisor));
        assert_eq!(found.qemu, root.path().join(qemu));
        assert!(found.logger.is_some());
    }
}
