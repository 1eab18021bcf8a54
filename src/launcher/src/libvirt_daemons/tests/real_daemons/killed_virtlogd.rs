//! Tests that a start waits for virtlogd, and that QEMU's logs continue when virtlogd dies.

use super::*;

/// Kills virtlogd before a start, which succeeds nevertheless, and again while the VM runs.
pub(super) async fn start_waits_for_virtlogd_and_logs_go_on(daemons: &Daemons, paths: &Paths) {
    let Some(logger) = &daemons.logger else {
        // The scripts that set it have run scripts/setup.
        let is_prebuilt = std::env::var_os("TESTS_PREBUILT").is_some();
        assert!(!is_prebuilt, "scripts/setup installs virtlogd");
        // Not by `eprintln!`, whose output the test harness captures.
        let line = "*** NOT TESTED: virtlogd's death: this machine lacks virtlogd ***\n";
        return io::Write::write_all(&mut io::stderr(), line.as_bytes()).unwrap();
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
    let boot_count = || {
        fs::read_to_string(&log)
            .unwrap_or_default()
            .matches("No bootable")
            .count()
    };
    eventually(|| boot_count() == 1).await;
    let second = logger.daemon.pid().unwrap();
    assert_ne!(first, second);
    assert_eq!(virtlogd_count(), 1);

    signal(second, "KILL");
    eventually(|| logger.daemon.pid().is_some_and(|pid| pid != second)).await;
    eventually(|| {
        qemu_log::broken_pipes(Path::new(&format!("/proc/{}", qemu_pid(paths))))
            .unwrap()
            .is_empty()
    })
    .await;
    let reset = {
        let domain = std::sync::Arc::clone(&domain);
        move || domain.reset().unwrap()
    };
    tokio::task::spawn_blocking(reset).await.unwrap();
    eventually(|| boot_count() == 2).await;
    assert_eq!(virtlogd_count(), 1);
    assert!(logger.lost.borrow().is_none());
    let end = move || {
        domain.destroy(libvirt::DestroyMode::Forceful).unwrap();
        domain.undefine(libvirt::UndefineOptions::KEEP).unwrap();
    };
    tokio::task::spawn_blocking(end).await.unwrap();
}

/// The number of virtlogd processes in this pid namespace.
fn virtlogd_count() -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let status = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("status")).ok();
    processes
        .filter_map(status)
        .filter(|status| status.starts_with("Name:\tvirtlogd\n") && !status.contains("State:\tZ"))
        .count()
}
