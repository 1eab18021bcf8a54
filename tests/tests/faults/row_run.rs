//! Applies the steps of a row of the fault matrix.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use tokio::task::JoinHandle;

use crate::command_socket_clients;
use crate::fault_row::{Program, Step, millis};
use crate::fault_row_calls::{Call, ask};
use crate::second_launcher::run_second_launcher;
use crate::stalled_backup_client::StalledBackupClient;
use crate::test_vm::TestVm;

/// The interval between the calls of a client of [`Step::Poll`].
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a pod may run after its launcher was killed.
const POD_EXIT_TIMEOUT: Duration = Duration::from_secs(15);

/// The state of a running row.
pub(crate) struct RowRun {
    /// The number of notifications before the first step.
    pub(crate) first_event_index: usize,
    /// The number of notifications up to and including the last state that the row has waited for.
    last_state_index: usize,
    /// The time of the last step that is a disturbance, see [`Step::is_disturbance`].
    pub(crate) last_disturbance: Instant,
    pollers: Vec<JoinHandle<()>>,
    stalled_client: Option<StalledBackupClient>,
}

impl RowRun {
    pub(crate) fn begin(first_event_index: usize) -> RowRun {
        RowRun {
            first_event_index,
            last_state_index: first_event_index,
            last_disturbance: Instant::now(),
            pollers: Vec::new(),
            stalled_client: None,
        }
    }

    /// Applies one step. The error says which expectation failed.
    pub(crate) async fn apply(&mut self, vm: &mut TestVm, step: Step) -> Result<()> {
        if step.is_disturbance() {
            self.last_disturbance = Instant::now();
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
                .accepted()
                .with_context(|| format!("{call:?}")),
            Step::Refused(call) => {
                let answer = vm.ask(call).await.and_then(|answer| answer.accepted());
                ensure!(answer.is_err(), "{call:?} succeeded");
                Ok(())
            }
            Step::AnswerWithin(call, limit) => check_answer_time(vm, call, limit).await,
            Step::AskUntil(call, limit) => ask_until_success(vm, call, millis(limit)).await,
            Step::Send(call) => vm.send(call),
            Step::Cancel(call, after) => {
                let _ = tokio::time::timeout(millis(after), vm.ask(call)).await;
                Ok(())
            }
            Step::Poll(call) => self.poll(vm, call).await,
            Step::Notify(mode) => vm.set_notify_proxy(mode),
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
                self.stalled_client = Some(vm.stall_backup_client().await?);
                Ok(())
            }
            Step::NotReported(state) => self.check_not_reported(vm, state),
            Step::Type(line) => vm.type_line(line).await,
            Step::ConsoleLogged(text, limit) => {
                self.wait_for_console_text(vm, text, millis(limit)).await
            }
            Step::Remove(paths) => remove_files(vm, paths),
            Step::SecondLauncher => run_second_launcher(vm).await,
            Step::StartAgain => {
                vm.pod.wait_for_exit(POD_EXIT_TIMEOUT).await?;
                vm.start(&[])?;
                vm.wait_until_ready().await
            }
            Step::Clients(clients, commands) => {
                command_socket_clients::run_many_clients(vm, clients, commands).await
            }
            Step::ForeignAuthority => {
                command_socket_clients::ping_with_other_authority(&vm.command_socket()).await
            }
            Step::Garbage(connections) => {
                command_socket_clients::send_garbage(&vm.command_socket(), connections).await
            }
        }
    }

    async fn poll(&mut self, vm: &TestVm, call: Call) -> Result<()> {
        // Prometheus has so many requests open if earlier ones are not answered.
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

    fn check_not_reported(&self, vm: &TestVm, state: &str) -> Result<()> {
        let states = vm.states(self.last_state_index);
        ensure!(
            !states.iter().any(|reported| reported.starts_with(state)),
            "virt-handler was notified of {state}: {states:?}"
        );
        Ok(())
    }

    async fn wait_for_console_text(&self, vm: &TestVm, text: &str, limit: Duration) -> Result<()> {
        let console = vm.pod.console(&vm.vmi);
        let is_logged = async || {
            (console.text().contains(text)
                || vm.has_kubernetes_event(self.first_event_index, "onsole"))
            .then_some(())
        };
        tests::wait_until(
            &format!("{text:?} in the serial console's log"),
            limit,
            is_logged,
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

/// Removes those of the files that exist: libvirtd's files have other names than virtqemud's.
fn remove_files(vm: &TestVm, paths: &[&str]) -> Result<()> {
    let removed = paths
        .iter()
        .filter(|path| fs::remove_file(vm.pod.path(path)).is_ok());
    ensure!(removed.count() > 0, "none of these files is there");
    Ok(())
}

async fn check_answer_time(vm: &TestVm, call: Call, limit: u64) -> Result<()> {
    let begin = Instant::now();
    let result = tokio::time::timeout(millis(limit), vm.ask(call)).await;
    let Ok(answer) = result else {
        bail!("{call:?} was not answered within {limit} ms");
    };
    // An error at virt-handler's deadline is no answer, but a refusal is one.
    if let Err(error) = answer
        && begin.elapsed() >= millis(limit).mul_f32(0.98)
    {
        bail!("{call:?} was not answered within {limit} ms: {error:#}");
    }
    Ok(())
}

async fn ask_until_success(vm: &TestVm, call: Call, limit: Duration) -> Result<()> {
    let begin = Instant::now();
    loop {
        let outcome = match vm.ask(call).await {
            Ok(answer) => answer.accepted(),
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
