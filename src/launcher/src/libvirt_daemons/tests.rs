//! Tests with the daemons of this machine, and of the errors when there are none.
//!
//! The real daemons run in their own namespaces, in which this test binary starts itself again.

mod real_daemons;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::*;

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
    // Another process writes the program: a child that another test forks may hold a file open that this process
    // writes.
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
    let binaries = DaemonBinaries::find(&[first.clone(), second.clone()]).unwrap();
    assert_eq!(binaries.hypervisor, second.join("virtqemud"));
    assert_eq!(binaries.socket_name(), "virtqemud-sock");
    fs::remove_file(second.join("virtqemud")).unwrap();
    let binaries = DaemonBinaries::find(&[first.clone(), second]).unwrap();
    assert_eq!(binaries.hypervisor, first.join("libvirtd"));
    assert_eq!(binaries.socket_name(), "libvirt-sock");
}

#[test]
fn session_daemon_uses_the_directories_of_its_environment() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path(), &[]);
    config.log_filters = Some("1:qemu".into());
    config.shared_filesystems = vec!["/a".into(), "/b".into()];
    fs::create_dir_all(&config.etc).unwrap();
    fs::write(config.etc.join("qemu.conf"), "vnc_listen = \"::\"\n").unwrap();
    let files = daemon_config_files::write(&config).unwrap();
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

async fn eventually(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 30 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The layouts of KubeVirt's image (CentOS Stream), of Fedora and of Debian.
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
        let binaries = DaemonBinaries::find(&searched).unwrap();
        assert_eq!(binaries.hypervisor, root.path().join(hypervisor));
        assert_eq!(binaries.qemu, root.path().join(qemu));
        assert!(binaries.logger.is_some());
    }
}
