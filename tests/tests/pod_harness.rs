//! Tests of the harness: a pod is isolated and ends completely, and a timeout of virt-handler shows the expected state.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use tests::emulated_virt_handler::VirtHandler;
use tests::pod::{LauncherUser, Pod};

const TIMEOUT: Duration = Duration::from_secs(10);

fn run_shell(user: LauncherUser, script: &str) -> Result<Pod> {
    let mut pod = Pod::create(user)?;
    pod.run(Path::new("/bin/sh"), &["-c", script])?;
    Ok(pod)
}

#[tokio::test]
async fn a_pod_has_its_own_directories_processes_and_network() -> Result<()> {
    let script = "echo $$; id -u; ls /run; [ -e /dev/kvm ] || echo no kvm; ip -o link | wc -l; touch /run/kubevirt/here";
    let mut pod = run_shell(LauncherUser::Root, script)?;
    assert!(pod.wait_for_exit(TIMEOUT).await?.success(), "{}", pod.log());
    let log = pod.log();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[..2], ["1", "0"], "{log}");
    assert_eq!(lines[lines.len() - 2..], ["no kvm", "1"], "{log}");
    assert!(
        lines.contains(&"kubevirt-private") && lines.contains(&"libvirt"),
        "{log}"
    );
    assert!(pod.path("/var/run/kubevirt/here").exists());
    assert!(!Path::new("/run/kubevirt/here").exists());
    Ok(())
}

#[tokio::test]
async fn uid_107_can_write_kubevirts_directories_and_has_one_capability() -> Result<()> {
    let script = "id -u; id -g; echo $XDG_RUNTIME_DIR; grep CapAmb /proc/self/status; touch /var/run/kubevirt-private/x \
                  /var/run/libvirt/x /var/run/kubevirt/sockets/x && echo writable";
    let mut pod = run_shell(LauncherUser::Nonroot, script)?;
    assert!(pod.wait_for_exit(TIMEOUT).await?.success(), "{}", pod.log());
    let log = pod.log();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(
        lines,
        [
            "107",
            "107",
            "/var/run",
            "CapAmb:\t0000000000000400",
            "writable"
        ]
    );
    Ok(())
}

#[tokio::test]
async fn a_dropped_pod_leaves_no_process() -> Result<()> {
    let pod = run_shell(LauncherUser::Nonroot, "sleep 100 & sleep 100 & wait")?;
    let two_sleeps = async || {
        (pod.processes()
            .iter()
            .filter(|process| process.name == "sleep")
            .count()
            == 2)
            .then_some(())
    };
    tests::wait_until("two sleeps", TIMEOUT, two_sleeps).await?;
    let processes = pod.processes();
    assert_eq!(processes[1].parent, processes[0].pid.as_raw_nonzero().get());
    drop(pod);
    for process in processes {
        let processes_ended = async || {
            process
                .status("Name")
                .is_none_or(|name| name != process.name)
                .then_some(())
        };
        tests::wait_until("the process to be gone", TIMEOUT, processes_ended).await?;
    }
    Ok(())
}

#[tokio::test]
async fn signal_reaches_process_1_and_its_exit_code_is_returned() -> Result<()> {
    let mut pod = run_shell(
        LauncherUser::Root,
        "trap 'exit 7' TERM; touch /run/trapped; while :; do sleep 0.1; done",
    )?;
    let trapped = pod.path("/run/trapped");
    tests::wait_until("the trap", TIMEOUT, async || trapped.exists().then_some(())).await?;
    pod.signal(Signal::TERM)?;
    assert_eq!(pod.wait_for_exit(TIMEOUT).await?.code(), Some(7));
    Ok(())
}

#[tokio::test]
async fn a_masked_program_does_not_run() -> Result<()> {
    let mut pod = Pod::create(LauncherUser::Root)?;
    pod.mask_file(Path::new("/usr/bin/id"))?;
    pod.run(Path::new("/bin/sh"), &["-c", "id"])?;
    assert!(
        !pod.wait_for_exit(TIMEOUT).await?.success(),
        "{}",
        pod.log()
    );
    Ok(())
}

#[tokio::test]
async fn a_timeout_for_an_event_shows_the_history() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let handler = VirtHandler::listen(directory.path())?;
    let error = handler
        .wait_for_state("Running/Unknown", 0, Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("Running/Unknown"), "{error}");
    Ok(())
}
