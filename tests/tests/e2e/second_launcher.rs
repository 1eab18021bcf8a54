//! A second launcher with the same directories exits with an error, and does not affect the first.

use std::process::{Command, Output};

use anyhow::{Context, Result};
use tests::launcher_fixture::LauncherFixture;
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// Runs one of the pod's programs in the pod as `user`, while the first launcher runs.
fn run_second(
    fixture: &LauncherFixture,
    user: LauncherUser,
    program: &str,
    vmi: &Vmi,
) -> Result<Output> {
    let launcher = fixture
        .pod
        .process("virt-launcher")
        .context("no launcher")?;
    let directory = std::fs::read_link(format!("/proc/{}/exe", launcher.pid))?;
    let id = user.id().to_string();
    let mut command = Command::new("nsenter");
    command
        .args(["-t", &launcher.pid.to_string(), "-m", "-p", "-n"])
        .args(["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"])
        .args(["timeout", "20"])
        .arg(directory.with_file_name(program))
        .args(["--name", vmi.name(), "--uid", vmi.uid()])
        .args(["--namespace", "default", "--allow-emulation"])
        .args(["--container-disk-dir", "/var/run/kubevirt/container-disks"]);
    if user == LauncherUser::Nonroot {
        command.arg("--run-as-nonroot");
    }
    command.output().context("nsenter (package util-linux)")
}

async fn check_refusal(first: LauncherUser) -> Result<()> {
    let vmi = Vmi::new("first", first);
    let fixture = LauncherFixture::start(first, &vmi).await?;
    fixture.boot(&vmi).await?;
    let launcher = fixture
        .pod
        .process("virt-launcher")
        .context("no launcher")?;
    let before = main_processes(&fixture);
    let disk_socket = fixture
        .pod
        .path("/run/kubevirt/container-disks/disk_0.sock");
    std::fs::write(&disk_socket, "")?;
    let states = fixture.handler.states().len();

    // The second launcher may have another user than the first, who holds the lock.
    let users = [LauncherUser::Root, LauncherUser::Nonroot];
    for (user, program) in [
        (users[0], "virt-launcher"),
        (users[1], "virt-launcher"),
        (first, "virt-launcher-monitor"),
    ] {
        let output = run_second(&fixture, user, program, &vmi)?;
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(75), "{user:?}: {log}");
        assert!(log.contains("/var/run/kubevirt/sockets"), "{log}");
        assert!(
            log.contains(&format!("process {}", launcher.pod_pid)),
            "{log}"
        );
        assert!(log.contains("--kubevirt-share-dir"), "{log}");
    }
    assert!(disk_socket.exists(), "container disks go on");
    assert_eq!(
        main_processes(&fixture),
        before,
        "{:?}",
        fixture.pod.processes()
    );
    let new_states = fixture.handler.states().split_off(states);
    let is_running = new_states
        .iter()
        .all(|state| state.ends_with("Running/Unknown"));
    assert!(is_running, "{new_states:?}");
    fixture.commands.ping().await?.accepted()?;
    fixture.commands.pause(&vmi).await?.accepted()?;
    fixture.end_vm(&vmi).await
}

/// The process IDs of launcher, daemon and QEMU. libvirt also starts short-lived processes, which are not compared.
fn main_processes(fixture: &LauncherFixture) -> [Option<i32>; 3] {
    let processes = [
        fixture.pod.process("virt-launcher"),
        fixture.pod.daemon(),
        fixture.pod.qemu(),
    ];
    processes.map(|process| process.map(|process| process.pod_pid))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_launcher_beside_one_of_uid_107_is_refused() -> Result<()> {
    check_refusal(LauncherUser::Nonroot).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_launcher_beside_one_of_root_is_refused() -> Result<()> {
    check_refusal(LauncherUser::Root).await
}
