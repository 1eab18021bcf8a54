//! The process tree, and the paths of files, are those by which virt-handler finds the launcher, the daemon and QEMU.

use std::os::unix::net::UnixStream;

use anyhow::Result;
use rustix::net::sockopt::socket_peercred;
use tests::launcher_fixture::LauncherFixture;
use tests::pod::{LauncherUser, Pod, Process};
use tests::vmi_builder::Vmi;

fn running_process(pod: &Pod, name: &str) -> Process {
    let all = pod.processes();
    pod.process(name)
        .unwrap_or_else(|| panic!("no {name} among {all:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_tree_and_paths_as_uid_107() -> Result<()> {
    check_process_tree(LauncherUser::Nonroot).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_tree_and_paths_as_root() -> Result<()> {
    check_process_tree(LauncherUser::Root).await
}

async fn check_process_tree(user: LauncherUser) -> Result<()> {
    let vmi = Vmi::new("tree", user);
    let fixture = LauncherFixture::start(user, &vmi).await?;
    fixture.boot(&vmi).await?;
    let pod = &fixture.pod;
    let pid_of = |process: &Process| process.pid.as_raw_nonzero().get();
    let (monitor, launcher) = (
        running_process(pod, "virt-launcher-monitor"),
        running_process(pod, "virt-launcher"),
    );
    let qemu = running_process(pod, "qemu-system-x86_64");
    assert_eq!(monitor.pod_pid, 1, "the monitor is process 1");
    assert_eq!(launcher.parent, pid_of(&monitor));
    assert_eq!(qemu.parent, pid_of(&monitor), "{:?}", pod.processes());
    assert_eq!(
        pod.daemon().map(|daemon| daemon.parent),
        Some(pid_of(&launcher))
    );
    let socket = UnixStream::connect(pod.path("/run/kubevirt/sockets/launcher-sock"))?;
    assert_eq!(socket_peercred(&socket)?.pid, launcher.pid);
    assert_eq!(
        qemu.status("Uid").unwrap().split_whitespace().next(),
        Some("107")
    );
    if user == LauncherUser::Nonroot {
        assert_eq!(
            launcher.status("CapAmb").as_deref(),
            Some("0000000000000400"),
            "CAP_NET_BIND_SERVICE"
        );
        assert_eq!(
            pod.daemon().and_then(|daemon| daemon.status("CapAmb")),
            launcher.status("CapAmb")
        );
    }
    check_file_paths(&fixture, &vmi);
    fixture.end_vm(&vmi).await
}

fn check_file_paths(fixture: &LauncherFixture, vmi: &Vmi) {
    let (pids, logs) = match fixture.pod.user() {
        LauncherUser::Root => ("/run/libvirt/qemu", "/var/log/libvirt/qemu"),
        LauncherUser::Nonroot => (
            "/run/libvirt/qemu/run",
            "/run/kubevirt-private/libvirt/qemu/log",
        ),
    };
    let private = format!("/run/kubevirt-private/{}", vmi.uid());
    for path in [
        format!("{pids}/{}.pid", vmi.domain()),
        format!("{logs}/{}.log", vmi.domain()),
        format!("{private}/virt-serial0"),
        format!("{private}/virt-serial0-log"),
        format!("{private}/virt-vnc"),
    ] {
        assert!(fixture.pod.path(&path).exists(), "{path} is not there");
    }
    assert!(
        !fixture
            .pod
            .path("/run/kubevirt/sockets/launcher-init-sock")
            .exists()
    );
}
