//! Checks the expectation of a row after its steps.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Pid;

use crate::fault_row::{Expect, Phase, Program, with_slack};
use crate::fault_row_calls::Call;
use crate::leftover_sockets::check_no_socket_left;
use crate::row_run::RowRun;
use crate::test_vm::TestVm;

/// The limit of each wait in a row.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a delete is retried.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until the row's expectation holds. Returns the time since the last disturbance.
pub(crate) async fn check(
    vm: &mut TestVm,
    run: &RowRun,
    phase: Phase,
    expect: Expect,
    qemu: Option<Pid>,
) -> Result<Duration> {
    match expect {
        Expect::Unharmed(within) => check_unharmed(vm, run, phase, with_slack(within), qemu).await,
        Expect::Starts(within) => check_start(vm, run, with_slack(within)).await,
        Expect::Ends(state, report, exit) => {
            check_end(vm, run, state, with_slack(report), with_slack(exit)).await
        }
        Expect::LastReported(state, within) => {
            check_last_notification(vm, run, state, with_slack(within)).await
        }
        Expect::Exits(code, within) => check_exit(vm, run, code, with_slack(within)).await,
    }
}

async fn check_unharmed(
    vm: &TestVm,
    run: &RowRun,
    phase: Phase,
    within: Duration,
    qemu: Option<Pid>,
) -> Result<Duration> {
    let state = if phase == Phase::Paused {
        "Paused"
    } else {
        "Running"
    };
    let mut last = anyhow::anyhow!("nothing was asked");
    loop {
        match check_health(vm, state).await {
            Ok(()) => break,
            Err(error) => last = error,
        }
        if run.last_disturbance.elapsed() > within.max(Duration::from_secs(1)) {
            return Err(last.context(format!("not unharmed after {within:?}")));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let recovery = run.last_disturbance.elapsed();
    ensure!(
        vm.qemu() == qemu,
        "QEMU is another process: {:?}, not {qemu:?}",
        vm.qemu()
    );
    let states = vm.states(run.first_event_index);
    let ended = states
        .iter()
        .any(|state| state.starts_with("Shutoff") || state.starts_with("NoState"));
    ensure!(!ended, "virt-handler was notified of an end: {states:?}");
    check_process_count(vm).await?;
    if phase == Phase::Paused {
        vm.ask(Call::Unpause)
            .await?
            .accepted()
            .context("the unpause afterwards")?;
        vm.wait_for_state("Running/", run.first_event_index, Duration::from_secs(10))
            .await?;
    }
    Ok(recovery)
}

/// Checks that commands and queries work, and that libvirt and the last notification agree on `state`.
async fn check_health(vm: &TestVm, state: &str) -> Result<()> {
    vm.ask(Call::Ping).await?.accepted()?;
    let domain = vm.client()?.domain().await?;
    ensure!(
        domain["Status"]["Status"] == state,
        "GetDomain says {}, not {state}",
        domain["Status"]
    );
    vm.ask(Call::GetDomainStats).await?.accepted()?;
    vm.ask(Call::Sync).await?.accepted()?;
    let last = vm.states(0).pop().unwrap_or_default();
    ensure!(
        last.starts_with(state),
        "virt-handler was last notified of {last}, not {state}"
    );
    Ok(())
}

/// Checks that each program runs exactly once.
async fn check_process_count(vm: &TestVm) -> Result<()> {
    let names = [
        "virt-launcher-m",
        "virt-launcher",
        "virtlogd",
        "qemu-system-x86",
    ];
    let is_complete = async || {
        let all = vm.pod.processes();
        let count = |name: &str| all.iter().filter(|process| process.name == name).count();
        (names.iter().all(|name| count(name) == 1) && vm.process(Program::Daemon).is_some())
            .then_some(())
    };
    let result = tests::wait_until(
        "one process of each program",
        Duration::from_secs(5),
        is_complete,
    )
    .await;
    result.with_context(|| format!("{:?}", vm.processes()))
}

async fn check_start(vm: &TestVm, run: &RowRun, within: Duration) -> Result<Duration> {
    let mut last = String::new();
    loop {
        match vm.ask(Call::Sync).await {
            Ok(answer) if answer.success => break,
            Ok(answer) => last = answer.message,
            Err(error) => last = format!("{error:#}"),
        }
        ensure!(
            run.last_disturbance.elapsed() < within,
            "no sync succeeded within {within:?}, the last: {last}"
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let remaining = within
        .saturating_sub(run.last_disturbance.elapsed())
        .max(Duration::from_secs(1));
    vm.wait_for_state("Running/", 0, remaining)
        .await
        .context(last)?;
    let recovery = run.last_disturbance.elapsed();
    check_health(vm, "Running").await?;
    check_process_count(vm).await?;
    Ok(recovery)
}

async fn check_end(
    vm: &mut TestVm,
    run: &RowRun,
    state: &str,
    report: Duration,
    exit: Duration,
) -> Result<Duration> {
    let remaining = report.saturating_sub(run.last_disturbance.elapsed());
    let first = if state.starts_with("NoState") {
        "Shutoff/"
    } else {
        state
    };
    let outcome = vm
        .wait_for_state(first, run.first_event_index, remaining)
        .await;
    let recovery = run.last_disturbance.elapsed();
    let delete_result = delete(vm).await;
    outcome?;
    if state.starts_with("NoState") {
        delete_result?;
        vm.wait_for_state(
            state,
            run.first_event_index,
            with_slack(Duration::from_secs(5)),
        )
        .await?;
    }
    check_last_notification(vm, run, "Shutoff/", exit).await?;
    Ok(recovery)
}

/// Checks that the pod ends, and that the last notification is `state` or that the domain is gone.
async fn check_last_notification(
    vm: &mut TestVm,
    run: &RowRun,
    state: &str,
    exit: Duration,
) -> Result<Duration> {
    let duration = check_exit(vm, run, Some(0), exit).await?;
    let states = vm.states(0);
    let last = states.last().map(String::as_str).unwrap_or("NoState/");
    ensure!(
        last.starts_with(state) || last.starts_with("NoState/"),
        "virt-handler was last notified of {last}: {states:?}"
    );
    Ok(duration)
}

/// Deletes the domain of a VM that has ended, and retries like virt-handler. The launcher may have exited already.
async fn delete(vm: &mut TestVm) -> Result<()> {
    let begin = Instant::now();
    loop {
        let outcome = vm
            .ask(Call::Delete)
            .await
            .and_then(|answer| answer.accepted());
        let is_over = begin.elapsed() > DELETE_TIMEOUT || vm.process(Program::Launcher).is_none();
        match outcome {
            Err(_) if !is_over => tokio::time::sleep(Duration::from_millis(500)).await,
            outcome => return outcome,
        }
    }
}

async fn check_exit(
    vm: &mut TestVm,
    run: &RowRun,
    code: Option<i32>,
    within: Duration,
) -> Result<Duration> {
    let before = vm.pod.processes();
    let status = vm.pod.wait_for_exit(WAIT_TIMEOUT).await?;
    let duration = run.last_disturbance.elapsed();
    ensure!(
        duration <= within,
        "the pod ended only after {duration:?}, not within {within:?}"
    );
    if let Some(code) = code {
        ensure!(
            status.code() == Some(code),
            "the pod ended with {status}, not {code}"
        );
    }
    for process in before {
        let remains = process
            .status("Name")
            .is_some_and(|name| name == process.name)
            && process
                .status("NSpid")
                .is_some_and(|pids| pids.split_whitespace().count() > 1);
        ensure!(!remains, "process {process:?} is left");
    }
    // A launcher that was killed cannot remove its sockets.
    if code.is_some() {
        check_no_socket_left(vm)?;
    }
    Ok(duration)
}
