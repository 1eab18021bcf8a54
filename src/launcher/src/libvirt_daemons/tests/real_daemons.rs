//! Tests with libvirt's real daemons in their own pod: they serve, are restarted, hang and end.

mod killed_virtlogd;

use super::*;
use killed_virtlogd::start_waits_for_virtlogd_and_logs_go_on;

const POD: &str = "VIRT_LAUNCHER_TEST_POD";

#[test]
fn real_session_daemons_serve_are_restarted_and_end() {
    run_inside("exec setpriv --reuid=107 --regid=107 --clear-groups \"$0\" \"$@\"");
}

/// System daemons have fixed paths, so empty directories are mounted there. `/dev/kvm` is hidden, since they would
/// probe it for minutes where it does not work.
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

/// Runs [`inside_a_pod`] in new namespaces, after the shell commands `prepare`.
fn run_inside(prepare: &str) {
    let root = tempfile::tempdir().unwrap();
    assert!(
        rustix::process::geteuid().is_root() && DaemonBinaries::find(&installed()).is_ok(),
        "this needs root, QEMU and virtqemud or libvirtd: 'make test' sets it up"
    );
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = root.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let status = Command::new("unshare")
        .args(["-m", "-p", "-f", "--kill-child", "--mount-proc"])
        // The first process of the pid namespace reaps the orphans of the daemons.
        .args(["sh", "-c", "sh -c \"$@\"; exit $?", "init", prepare])
        .arg(&program)
        .args([
            "--exact",
            "libvirt_daemons::tests::real_daemons::inside_a_pod",
        ])
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

    let daemons = start(&config).await.unwrap();
    require_version(daemons.uri()).await;
    let first = daemons.pid().unwrap();
    let binaries = DaemonBinaries::find(&config.path).unwrap();
    let socket = config.paths.libvirt_run.join(binaries.socket_name());
    require_child(first);

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
    require_version(daemons.uri()).await;
    let second = daemons.pid().unwrap();
    assert_ne!(first, second);

    boot_writes_the_log(daemons.uri(), &config.paths.qemu_log("default_vm")).await;
    hung_calls_leave_the_connection_usable(daemons.uri(), &config.paths).await;
    start_waits_for_virtlogd_and_logs_go_on(&daemons, &config.paths).await;
    daemons.shutdown().await;
    assert!(!Path::new("/proc").join(second.to_string()).exists());
}

async fn require_version(uri: &str) {
    let uri = uri.to_owned();
    let version = tokio::task::spawn_blocking(move || libvirt::connect(&uri)?.version());
    assert!(version.await.unwrap().unwrap() > libvirt::Version(0));
}

fn require_child(pid: u32) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(
        status.contains(&format!("PPid:\t{}\n", std::process::id())),
        "{status}"
    );
    assert!(status.starts_with("Name:\tvirtqemud\n") || status.starts_with("Name:\tlibvirtd\n"));
}

/// QEMU starts with this configuration, and its log is at the expected path.
async fn boot_writes_the_log(uri: &str, log: &Path) {
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

/// While ten calls wait for a stopped QEMU, another call on the same connection is answered.
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
    let begin = Instant::now();
    let version = tokio::task::spawn_blocking(move || connection.version().unwrap());
    version.await.unwrap();
    let duration = begin.elapsed();
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
    assert!(duration < Duration::from_secs(3), "{duration:?}");
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
