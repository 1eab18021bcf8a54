//! Applies the steps of a row of the fault matrix.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use tokio::task::JoinHandle;

use crate::command_socket_clients;
use crate::matrix_vocabulary::{Call, Program, ProxyMode, Step, millis};
use crate::stalled_backup_client::StalledBackupClient;
use crate::test_vm::{TestVm, ask};

/// How often a client of [`Step::Poll`] asks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a second launcher may run until it is refused.
const SECOND_LAUNCHER_TIMEOUT: Duration = Duration::from_secs(15);
/// The pod's end after its launcher was killed.
const POD_EXIT_TIMEOUT: Duration = Duration::from_secs(15);

/// The state of a running row.
pub(crate) struct RowRun {
    /// The number of notifications before the first step.
    pub(crate) first_event_index: usize,
    /// The number of notifications up to the state that the row waited for last.
    last_state_index: usize,
    /// The time of the last step that began or ended a disturbance.
    pub(crate) disturbed: Instant,
    pollers: Vec<JoinHandle<()>>,
    stalled: Option<StalledBackupClient>,
}

impl RowRun {
    pub(crate) fn begin(first_event_index: usize) -> RowRun {
        RowRun {
            first_event_index,
            last_state_index: first_event_index,
            disturbed: Instant::now(),
            pollers: Vec::new(),
            stalled: None,
        }
    }

    /// Applies one step. An error says which expectation of the row failed.
    pub(crate) async fn apply(&mut self, vm: &mut TestVm, step: Step) -> Result<()> {
        if disturbs(step) {
            self.disturbed = Instant::now();
        }
        match step {
            Step::Kill(Program::Monitor) => vm.pod.signal(Signal::KILL),
            Step::Kill(program) => vm.signal(program, Signal::KILL),
            Step::Stop(program) => vm.signal(program, Signal::STOP),
            Step::Continue(program) => vm.signal(program, Signal::CONT),
            Step::Terminate(program) => vm.signal(program, Signal::TERM),
            Step::Sigterm => vm.pod.signal(Signal::TERM),
            Step::Wait(time) => {
                tokio::time::sleep(millis(time)).await;
                Ok(())
            }
            Step::Ask(call) => vm
                .ask(call)
                .await?
                .ok()
                .with_context(|| format!("{call:?}")),
            Step::Refused(call) => {
                let answer = vm.ask(call).await.and_then(|answer| answer.ok());
                ensure!(answer.is_err(), "{call:?} succeeded");
                Ok(())
            }
            Step::AnswerWithin(call, limit) => answer_within(vm, call, limit).await,
            Step::AskUntil(call, limit) => ask_until(vm, call, millis(limit)).await,
            Step::Send(call) => vm.send(call),
            Step::Cancel(call, after) => {
                let _ = tokio::time::timeout(millis(after), vm.ask(call)).await;
                Ok(())
            }
            Step::Poll(call) => self.poll(vm, call).await,
            Step::Notify(mode) => vm.notify(mode),
            Step::RestartHandler => vm.restart_handler().await,
            Step::Reported(state, limit) => {
                vm.wait_for_state(state, self.first_event_index, millis(limit))
                    .await?;
                let events = vm.events();
                let mut new_events = events.iter().skip(self.first_event_index);
                let index = new_events.position(|event| event.state().starts_with(state));
                self.last_state_index = self.first_event_index + index.map_or(0, |index| index + 1);
                Ok(())
            }
            Step::EventReported(reason, times) => {
                let count = vm.count_kubernetes_events(self.first_event_index, reason);
                ensure!(count == times, "{count} events of the reason {reason}");
                Ok(())
            }
            Step::BackupEnded(failure, limit) => {
                let message = vm
                    .backup_message(self.first_event_index, millis(limit))
                    .await?;
                let is_expected = match failure.is_empty() {
                    true => message.is_empty(),
                    false => message.contains(failure),
                };
                ensure!(is_expected, "the backup ended with {message:?}");
                Ok(())
            }
            Step::BackupEndedAnyhow(limit) => vm
                .backup_message(self.first_event_index, millis(limit))
                .await
                .map(drop),
            Step::DumpFailed(failure, limit) => {
                let reason = vm
                    .dump_failure(self.first_event_index, millis(limit))
                    .await?;
                ensure!(reason.contains(failure), "the dump failed with {reason:?}");
                Ok(())
            }
            Step::StalledNbdClient => {
                self.stalled = Some(vm.stall_backup_client().await?);
                Ok(())
            }
            Step::NotReported(state) => self.not_reported(vm, state),
            Step::Type(line) => vm.type_line(line).await,
            Step::ConsoleLogged(text, limit) => self.console_logged(vm, text, millis(limit)).await,
            Step::Remove(paths) => remove(vm, paths),
            Step::SecondLauncher => second_launcher(vm).await,
            Step::StartAgain => {
                vm.pod.wait_for_exit(POD_EXIT_TIMEOUT).await?;
                vm.start(&[])?;
                vm.ready().await
            }
            Step::Clients(clients, commands) => {
                command_socket_clients::mixed_commands(vm, clients, commands).await
            }
            Step::ForeignAuthority => {
                command_socket_clients::foreign_authority(&vm.command_socket()).await
            }
            Step::Garbage(connections) => {
                command_socket_clients::garbage(&vm.command_socket(), connections).await
            }
        }
    }

    async fn poll(&mut self, vm: &TestVm, call: Call) -> Result<()> {
        // As many as Prometheus has open when earlier requests are not answered.
        for _ in 0..3 {
            let (client, vmi) = (vm.new_client().await?, vm.vmi.clone());
            self.pollers.push(tokio::spawn(async move {
                loop {
                    let _ = ask(&client, &vmi, call).await;
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }));
        }
        Ok(())
    }

    fn not_reported(&self, vm: &TestVm, state: &str) -> Result<()> {
        let states = vm.states(self.last_state_index);
        ensure!(
            !states.iter().any(|reported| reported.starts_with(state)),
            "virt-handler was notified of {state}: {states:?}"
        );
        Ok(())
    }

    async fn console_logged(&self, vm: &TestVm, text: &str, limit: Duration) -> Result<()> {
        let console = vm.pod.console(&vm.vmi);
        let logged = async || {
            (console.text().contains(text)
                || vm.has_kubernetes_event(self.first_event_index, "onsole"))
            .then_some(())
        };
        tests::until(
            &format!("{text:?} in the serial console's log"),
            limit,
            logged,
        )
        .await
    }
}

impl Drop for RowRun {
    fn drop(&mut self) {
        for poller in &self.pollers {
            poller.abort();
        }
    }
}

fn disturbs(step: Step) -> bool {
    match step {
        // What ends the VM is what the expectation counts from.
        Step::Ask(Call::Kill | Call::Shutdown) => true,
        Step::Wait(_)
        | Step::Ask(_)
        | Step::AnswerWithin(..)
        | Step::Refused(_)
        | Step::AskUntil(..)
        | Step::Poll(_)
        | Step::Reported(..)
        | Step::EventReported(..)
        | Step::BackupEnded(..)
        | Step::BackupEndedAnyhow(_)
        | Step::DumpFailed(..)
        | Step::NotReported(_)
        | Step::ConsoleLogged(..) => false,
        Step::Notify(mode) => mode != ProxyMode::Slow(0),
        _ => true,
    }
}

/// libvirtd's files have other names than virtqemud's: removes those that are there.
fn remove(vm: &TestVm, paths: &[&str]) -> Result<()> {
    let removed = paths
        .iter()
        .filter(|path| fs::remove_file(vm.pod.path(path)).is_ok());
    ensure!(removed.count() > 0, "none of these files is there");
    Ok(())
}

async fn answer_within(vm: &TestVm, call: Call, limit: u64) -> Result<()> {
    let begin = Instant::now();
    let answered = tokio::time::timeout(millis(limit), vm.ask(call)).await;
    let Ok(answer) = answered else {
        bail!("{call:?} was not answered within {limit} ms");
    };
    // virt-handler's deadline is an error here; an answer that says no is an answer.
    if let Err(error) = answer
        && begin.elapsed() >= millis(limit).mul_f32(0.98)
    {
        bail!("{call:?} was not answered within {limit} ms: {error:#}");
    }
    Ok(())
}

async fn ask_until(vm: &TestVm, call: Call, limit: Duration) -> Result<()> {
    let begin = Instant::now();
    loop {
        let outcome = match vm.ask(call).await {
            Ok(answer) => answer.ok(),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => return Ok(()),
            Err(error) if begin.elapsed() > limit => {
                return Err(error.context(format!("{call:?} did not succeed within {limit:?}")));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Runs the launcher once more in the pod's namespaces, with the same user, arguments and environment.
async fn second_launcher(vm: &TestVm) -> Result<()> {
    let first = vm.process(Program::Launcher).context("no launcher runs")?;
    let pid = first.pid.as_raw_nonzero().to_string();
    let words = |name: &str| -> Result<Vec<String>> {
        let text = fs::read_to_string(format!("/proc/{pid}/{name}"))?;
        Ok(text.split_terminator('\0').map(str::to_owned).collect())
    };
    let user = vm.pod.user().id().to_string();
    let log = fs::File::create(vm.pod.log_path().with_file_name("second-log"))?;
    let mut child = tokio::process::Command::new("nsenter")
        .args([
            "--target", &pid, "--mount", "--pid", "--net", "--", "setpriv",
        ])
        .args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"])
        .args(words("cmdline")?)
        .env_clear()
        .envs(
            words("environ")?
                .iter()
                .filter_map(|pair| pair.split_once('=')),
        )
        .stdin(std::process::Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .context("nsenter (package util-linux)")?;
    match tokio::time::timeout(SECOND_LAUNCHER_TIMEOUT, child.wait()).await {
        Ok(status) => {
            let status = status?;
            ensure!(!status.success(), "the second launcher ended with {status}");
            Ok(())
        }
        Err(_) => {
            // SIGTERM first, so that the log shows how it ends.
            for process in vm.pod.processes() {
                if process.name == "virt-launcher" && process.inner != first.inner {
                    let _ = rustix::process::kill_process(process.pid, Signal::TERM);
                }
            }
            let _ = tokio::time::timeout(SECOND_LAUNCHER_TIMEOUT, child.wait()).await;
            bail!("the second launcher was not refused within {SECOND_LAUNCHER_TIMEOUT:?}")
        }
    }
}
