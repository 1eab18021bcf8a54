//! A launcher in its pod with its virt-handler, which can be brought to any phase.
//!
//! The only file of the matrix that uses the harness's virt-handler directly.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use proto::cmd::v1::EmptyRequest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::export_server::ExportServer;
use tests::guest_image::Guest;
use tests::launcher_fixture::{BOOT, EVENT, READY};
use tests::pod::{LauncherUser, Pod, Process};
use tests::virt_handler::{Answer, Commands, Event, VirtHandler};
use tests::vmi_builder::Vmi;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::hotplug_calls;
use crate::matrix_vocabulary::{Call, Phase, Program, ProxyMode, Setup};
use crate::notify_proxy::NotifyProxy;
use crate::stalled_backup_client::StalledBackupClient;

/// The guest's shell runs a line within this time, also on a busy machine.
const GUEST_SHELL: Duration = Duration::from_secs(60);
/// virt-handler's deadline of a command, and some slack.
const ANSWER: Duration = Duration::from_secs(21);
/// A file system of this size is full once QEMU's log exists.
const FULL_LOGS: &str = "mkdir -p /var/log/libvirt /run/kubevirt-private/libvirt/qemu/log\n\
    for logs in /var/log/libvirt /run/kubevirt-private/libvirt/qemu/log; do\n\
    chown -R 107:107 /run/kubevirt-private/libvirt\n\
    mount -t tmpfs -o size=4k,mode=1777 logs $logs; head -c 4096 /dev/zero >$logs/full || true\n\
    done";

/// A disk of 64 MiB, a directory for backups, and one that has space for 4 MiB.
const CLAIM: &str = "/run/kubevirt-private/vmi-disks/data";
const BACKUPS: &str = "/run/kubevirt/backups";
/// Where dumps are written to.
const DUMPS: &str = "/var/run/kubevirt/hotplug-disks";
const FULL_DISK: &str = "/run/kubevirt/full";
const TRACKED_DISK: &str = "mkdir -p /run/kubevirt-private/vmi-disks/data /run/kubevirt/backups /run/kubevirt/full\n\
    head -c 64M /dev/urandom >/run/kubevirt-private/vmi-disks/data/disk.img\n\
    chown -R 107:107 /run/kubevirt-private/vmi-disks /run/kubevirt/backups\n\
    mount -t tmpfs -o size=4m,mode=1777 full /run/kubevirt/full";

/// The start time of every backup.
const BACKUP_TIME: &str = "2026-11-21T13:10:00Z";

/// The VM under test.
pub(crate) struct TestVm {
    pub(crate) pod: Pod,
    pub(crate) vmi: Vmi,
    setup: Setup,
    handler: Option<VirtHandler>,
    /// The notifications to earlier virt-handlers.
    earlier: Vec<Event>,
    notify_proxy: NotifyProxy,
    directory: TempDir,
    commands: Option<Commands>,
}

impl TestVm {
    /// A pod in which no launcher runs yet.
    pub(crate) fn create(setup: Setup) -> Result<TestVm> {
        let user = match setup {
            Setup::Root => LauncherUser::Root,
            _ => LauncherUser::Nonroot,
        };
        TestVm::create_in(setup, Pod::create(user)?)
    }

    /// The same, in a pod of the caller.
    pub(crate) fn create_in(setup: Setup, mut pod: Pod) -> Result<TestVm> {
        pod.suppress_log();
        Guest::prepare()?.install_kernel_boot(&pod.path("/run/kubevirt/container-disks"))?;
        if setup == Setup::FullLogs {
            pod.set_up_network(FULL_LOGS, "")?;
        }
        if setup == Setup::TrackedDisk {
            pod.set_up_network(TRACKED_DISK, "")?;
        }
        if setup == Setup::Hotplug {
            hotplug_calls::put_images(&pod)?;
        }
        // virt-handler has its own directory, with the proxy between it and the pod's.
        let directory = tempfile::Builder::new().prefix("handler-").tempdir()?;
        symlink(
            pod.share_dir().join("sockets"),
            directory.path().join("sockets"),
        )?;
        let handler = VirtHandler::listen(directory.path())?;
        let socket = "domain-notify-pipe.sock";
        let notify_proxy = NotifyProxy::open(
            &pod.share_dir().join(socket),
            &directory.path().join(socket),
        )?;
        let vmi = Vmi::new("fault", pod.user()).grace_period(setup.grace());
        let vmi = match setup {
            Setup::DeafGuest => vmi.edit(|vmi| {
                if let Some(firmware) = vmi["spec"]["domain"]["firmware"].as_object_mut() {
                    firmware.remove("kernelBoot");
                }
            }),
            Setup::TrackedDisk => {
                let disk = format!("{CLAIM}/disk.img");
                let disk = json!({ "hostDisk": { "path": disk, "type": "Disk" } });
                let tracking = json!({ "state": "Initializing" });
                vmi.volume("data", disk)
                    .edit(|vmi| vmi["status"]["changedBlockTracking"] = tracking)
            }
            Setup::Hotplug => hotplug_calls::base(vmi),
            _ => vmi,
        };
        Ok(TestVm {
            pod,
            vmi,
            setup,
            handler: Some(handler),
            earlier: Vec::new(),
            notify_proxy,
            directory,
            commands: None,
        })
    }

    /// How the pod differs from a plain one.
    pub(crate) fn setup(&self) -> Setup {
        self.setup
    }

    /// Starts monitor and launcher.
    pub(crate) fn start(&mut self, extra: &[&str]) -> Result<()> {
        self.commands = None;
        let grace = self.setup.grace().to_string();
        let arguments = [&["--grace-period-seconds", &grace], extra].concat();
        self.pod.start(&self.vmi, &arguments)
    }

    /// Waits for the launcher's ready socket.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let handler = self.handler.as_ref().context("there is no virt-handler")?;
        let commands = tokio::select! {
            commands = handler.commands(READY) => commands?,
            status = self.pod.wait_for_exit(READY * 2) => bail!("the launcher ended before it was ready: {}", status?),
        };
        self.commands = Some(commands);
        Ok(())
    }

    /// Brings a launcher that was not started yet, or whose guest is running, to `phase`.
    pub(crate) async fn reach(&mut self, phase: Phase) -> Result<()> {
        if self.commands.is_none() {
            self.start(&[])?;
            if let Phase::Spawned(millis) = phase {
                self.launched().await?;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                return Ok(());
            }
            self.ready().await?;
            match phase {
                Phase::Ready => return Ok(()),
                Phase::Defined => {
                    self.send(Call::Sync)?;
                    return self.wait_for_state("Shutoff/", 0, EVENT).await;
                }
                Phase::Starting => {
                    self.send(Call::Sync)?;
                    let qemu = async || self.process(Program::Qemu);
                    return tests::until("QEMU", EVENT, qemu).await.map(drop);
                }
                _ => self.boot().await?,
            }
        }
        match phase {
            Phase::Running => Ok(()),
            Phase::Paused => {
                let mark = self.events().len();
                self.ask(Call::Pause).await?.ok()?;
                self.wait_for_state("Paused/User", mark, EVENT).await
            }
            Phase::ShuttingDown => self.ask(Call::Shutdown).await?.ok(),
            Phase::Off => {
                self.type_line("poweroff -f").await?;
                self.wait_for_state("Shutoff/", 0, BOOT).await
            }
            other => bail!("a running VM cannot be taken to {other:?}"),
        }
    }

    /// Waits until the launcher's process exists and can receive a signal.
    async fn launched(&self) -> Result<()> {
        let begin = Instant::now();
        while self.process(Program::Launcher).is_none() {
            ensure!(begin.elapsed() < READY, "the monitor started no launcher");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    async fn boot(&mut self) -> Result<()> {
        self.ask(Call::Sync).await?.ok()?;
        self.wait_for_state("Running/", 0, BOOT).await?;
        if self.setup != Setup::DeafGuest {
            self.pod.console(&self.vmi).wait_for_boots(1, BOOT).await?;
            self.agent_answers().await?;
        }
        Ok(())
    }

    /// libvirt handles events of QEMU one at a time. That of the agent's connection waits for 30 s while a backup runs, with all
    /// events behind it, and then it is lost. The first command to the agent waits for virtlogd.
    async fn agent_answers(&self) -> Result<()> {
        let answered = async || {
            let answer = self.ask(Call::GuestPing).await;
            answer.is_ok_and(|answer| answer.ok().is_ok()).then_some(())
        };
        tests::until("the guest agent", BOOT, answered).await
    }

    // ---- processes ---------------------------------------------------------------------------------------------------

    /// The process of a program, if it runs.
    pub(crate) fn process(&self, program: Program) -> Option<Process> {
        match program {
            Program::Monitor => self.pod.process("virt-launcher-monitor"),
            Program::Launcher => self.pod.process("virt-launcher"),
            Program::Daemon => self.pod.daemon(),
            Program::Virtlogd => self.pod.process("virtlogd"),
            Program::Qemu => self.pod.processes().into_iter().find(is_guest),
        }
    }

    pub(crate) fn signal(&self, program: Program, signal: Signal) -> Result<()> {
        let process = self.process(program);
        let process = process.with_context(|| format!("{program:?} does not run"))?;
        Ok(kill_process(process.pid, signal)?)
    }

    /// `NAME PID` of each process in the pod.
    pub(crate) fn processes(&self) -> Vec<String> {
        let all = self.pod.processes();
        all.iter()
            .map(|process| format!("{} {}", process.name, process.inner))
            .collect()
    }

    /// QEMU's process id.
    pub(crate) fn qemu(&self) -> Option<Pid> {
        self.process(Program::Qemu).map(|process| process.pid)
    }

    /// Types a line into the guest's shell, and waits until the shell has run it, or QEMU has ended. The answer comes from the
    /// console itself, since rows also end the daemon that logs it.
    pub(crate) async fn type_line(&self, line: &str) -> Result<()> {
        static LINES: AtomicU32 = AtomicU32::new(0);
        let number = LINES.fetch_add(1, Ordering::Relaxed);
        let socket = format!("/run/kubevirt-private/{}/virt-serial0", self.vmi.uid());
        let mut console = UnixStream::connect(self.pod.path(&socket)).await?;
        // The console shows what is typed too: only the output has the mark without quotes.
        let typed = format!("\n{line}; echo line-{number}''-has-run\n");
        console.write_all(typed.as_bytes()).await?;
        let mark = format!("line-{number}-has-run");
        let read = async {
            let mut text = Vec::new();
            while !String::from_utf8_lossy(&text).contains(&mark) {
                if console.read_buf(&mut text).await.unwrap_or(0) == 0 {
                    break;
                }
            }
        };
        let has_run = tokio::time::timeout(GUEST_SHELL, read).await;
        has_run.with_context(|| {
            format!("the guest's shell has not run {line:?} within {GUEST_SHELL:?}")
        })
    }

    // ---- virt-handler ------------------------------------------------------------------------------------------------

    pub(crate) fn notify(&mut self, mode: ProxyMode) -> Result<()> {
        self.notify_proxy.set(mode)
    }

    /// Ends virt-handler, and starts another half a second later.
    pub(crate) async fn restart_handler(&mut self) -> Result<()> {
        self.notify_proxy.set(ProxyMode::Away)?;
        self.earlier.extend(
            self.handler
                .take()
                .map(|old| old.events())
                .unwrap_or_default(),
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.handler = Some(VirtHandler::listen(self.directory.path())?);
        self.notify_proxy.set(ProxyMode::Open)?;
        if self.commands.is_some() {
            self.ready().await?;
        }
        Ok(())
    }

    /// All notifications so far, earlier virt-handlers included.
    pub(crate) fn events(&self) -> Vec<Event> {
        let now = self.handler.as_ref().map(VirtHandler::events);
        [self.earlier.clone(), now.unwrap_or_default()].concat()
    }

    /// `Status/Reason` of the domain events from number `mark` on.
    pub(crate) fn states(&self, mark: usize) -> Vec<String> {
        let events = self.events();
        let states = events.iter().skip(mark).map(Event::state);
        states.filter(|state| !state.is_empty()).collect()
    }

    /// Whether a Kubernetes event from number `mark` on has `text` in its message.
    pub(crate) fn has_kubernetes_event(&self, mark: usize, text: &str) -> bool {
        let events = self.events();
        events
            .iter()
            .skip(mark)
            .any(|event| event.kubernetes_reason().is_some() && event.to_string().contains(text))
    }

    /// How many Kubernetes events of a reason there were from number `mark` on.
    pub(crate) fn count_kubernetes_events(&self, mark: usize, reason: &str) -> usize {
        let events = self.events();
        let of_reason = |event: &&Event| event.kubernetes_reason() == Some(reason);
        events.iter().skip(mark).filter(of_reason).count()
    }

    /// Waits for a state with this prefix, from event number `mark` on.
    pub(crate) async fn wait_for_state(
        &self,
        state: &str,
        mark: usize,
        deadline: Duration,
    ) -> Result<()> {
        let reported = async || {
            self.states(mark)
                .iter()
                .any(|reported| reported.starts_with(state))
                .then_some(())
        };
        let waited = tests::until(&format!("a notification of {state}"), deadline, reported).await;
        waited.with_context(|| format!("the states were {:?}", self.states(mark)))
    }

    /// Why the backup failed that ended after event number `mark`; empty if it is complete.
    pub(crate) async fn backup_message(&self, mark: usize, deadline: Duration) -> Result<String> {
        let name = backup_name(&self.vmi, false);
        let ended = async || {
            let events = self.events();
            let records = events
                .iter()
                .skip(mark)
                .map(|one| &one.metadata()["Backup"]);
            let mut records = records.filter(|record| record["Name"] == name.as_str());
            let record = records.rfind(|record| record["Completed"] == true)?;
            let message = record["BackupMsg"].as_str().unwrap_or_default();
            let is_failed = record["Failed"] == true;
            Some(if is_failed { message } else { "" }.to_owned())
        };
        tests::until("the end of a backup", deadline, ended).await
    }

    /// Why the memory dump failed that ended after event number `mark`.
    pub(crate) async fn dump_failure(&self, mark: usize, deadline: Duration) -> Result<String> {
        let failed = async || {
            let events = self.events();
            let mut records = events
                .iter()
                .skip(mark)
                .map(|one| &one.metadata()["MemoryDump"]);
            let record = records.rfind(|record| record["Failed"] == true)?;
            Some(
                record["FailureReason"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            )
        };
        tests::until("the failure of a memory dump", deadline, failed).await
    }

    /// A client of the running backup that asks for everything and stops reading.
    pub(crate) async fn stall_backup_client(&self) -> Result<StalledBackupClient> {
        let server = ExportServer::start(&self.pod).await?;
        let options = server.options(&backup_name(&self.vmi, false), BACKUP_TIME)?;
        StalledBackupClient::connect(server, &self.client()?, &tracked(&self.vmi), &options).await
    }

    /// The client of the launcher.
    pub(crate) fn client(&self) -> Result<Commands> {
        self.commands
            .clone()
            .context("the launcher was not ready yet")
    }

    /// Asks the launcher, with virt-handler's deadline.
    pub(crate) async fn ask(&self, call: Call) -> Result<Answer> {
        ask(&self.client()?, &self.vmi, call).await
    }

    /// Sends a call without waiting for the answer.
    pub(crate) fn send(&self, call: Call) -> Result<()> {
        let (client, vmi) = (self.client()?, self.vmi.clone());
        tokio::spawn(async move { ask(&client, &vmi, call).await });
        Ok(())
    }

    /// A client with a connection of its own.
    pub(crate) async fn new_client(&self) -> Result<Commands> {
        Commands::connect(&self.command_socket(), EVENT).await
    }

    pub(crate) fn command_socket(&self) -> std::path::PathBuf {
        self.pod.share_dir().join("sockets/launcher-sock")
    }
}

/// Whether a process is a QEMU with a guest. libvirt runs others to probe their capabilities.
fn is_guest(process: &Process) -> bool {
    let file = format!("/proc/{}/cmdline", process.pid.as_raw_nonzero());
    process.name == "qemu-system-x86"
        && std::fs::read_to_string(file).is_ok_and(|line| line.contains("guest="))
}

/// The name of a dump that nobody has asked for before: a repeated one does nothing.
fn dump_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("fault-{number}.memory.dump")
}

/// How many backups of each VM were started.
static BACKUPS_STARTED: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

/// The name of the VM's newest backup; of a new one, if it is to be started.
fn backup_name(vmi: &Vmi, is_new: bool) -> String {
    let mut started = BACKUPS_STARTED
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let number = started.entry(vmi.uid().to_owned()).or_default();
    *number += u32::from(is_new);
    format!("fault-{number}")
}

/// `BackupVirtualMachine`, with these options beside the name.
async fn backup(client: &Commands, vmi: &Vmi, mut options: Value) -> Result<Answer> {
    options["backupName"] = json!(backup_name(vmi, options["cmd"] == "Start"));
    options["backupStartTime"] = json!(BACKUP_TIME);
    Ok(client.backup(&tracked(vmi), &options).await?)
}

/// The VMI as it is when the blocks of its disk are tracked.
fn tracked(vmi: &Vmi) -> Vmi {
    let vmi = vmi.clone();
    vmi.edit(|vmi| vmi["status"]["changedBlockTracking"]["state"] = json!("Enabled"))
}

fn start_backup(mode: &str, directory: &str) -> Value {
    json!({ "cmd": "Start", "mode": mode, "targetPath": directory })
}

/// One call, with virt-handler's deadline.
pub(crate) async fn ask(client: &Commands, vmi: &Vmi, call: Call) -> Result<Answer> {
    let done = |outcome: Result<()>| {
        outcome.map(|()| Answer {
            success: true,
            message: String::new(),
        })
    };
    let answer = async {
        Ok(match call {
            Call::Ping => client.ping().await?,
            Call::Sync => client.sync(vmi).await?,
            Call::Pause => client.pause(vmi).await?,
            Call::Unpause => client.unpause(vmi).await?,
            Call::Freeze => client.freeze(vmi, 2).await?,
            Call::Unfreeze => client.unfreeze(vmi).await?,
            Call::MemoryDump => {
                client
                    .memory_dump(vmi, &format!("{DUMPS}/{}", dump_name()))
                    .await?
            }
            Call::MemoryDumpToFullDisk => {
                client
                    .memory_dump(vmi, &format!("{FULL_DISK}/{}", dump_name()))
                    .await?
            }
            Call::AttachDisk => hotplug_calls::sync(client, vmi, true).await?,
            Call::DetachDisk => hotplug_calls::sync(client, vmi, false).await?,
            Call::DetachKeptDisk => hotplug_calls::sync_kept(client, vmi).await?,
            Call::AttachForeignImage => hotplug_calls::sync_foreign(client, vmi).await?,
            Call::AttachUnusableDisks => hotplug_calls::sync_unusable(client, vmi).await?,
            Call::ExecFlood => {
                let flood = "head -c 100000000 /dev/zero | tr '\\0' x";
                done(
                    client
                        .exec(vmi, "sh", &["-c", flood])
                        .await
                        .map(drop)
                        .map_err(Into::into),
                )?
            }
            Call::PushBackup => backup(client, vmi, start_backup("Push", BACKUPS)).await?,
            Call::PushBackupToFullDisk => {
                backup(client, vmi, start_backup("Push", FULL_DISK)).await?
            }
            Call::PullBackup => backup(client, vmi, start_backup("Pull", BACKUPS)).await?,
            Call::AbortBackup => backup(client, vmi, json!({ "cmd": "Abort" })).await?,
            Call::Reset => client.reset(vmi).await?,
            Call::Shutdown => client.shutdown(vmi).await?,
            Call::Kill => client.kill(vmi).await?,
            Call::Delete => client.delete(vmi).await?,
            Call::GuestPing => client.guest_ping(vmi, 5).await?,
            Call::GetDomain => done(client.domain().await.map(drop))?,
            Call::GetDomainStats => done(client.domain_stats().await.map(drop))?,
            Call::GetQemuVersion => done(client.qemu_version().await.map(drop))?,
            Call::GetGuestInfo => {
                let mut raw = client.raw.clone();
                done(
                    raw.get_guest_info(EmptyRequest {})
                        .await
                        .map(drop)
                        .map_err(Into::into),
                )?
            }
        })
    };
    let answered: Result<Result<Answer>, _> = tokio::time::timeout(ANSWER, answer).await;
    answered
        .with_context(|| format!("{call:?}: no answer within {ANSWER:?}"))?
        .with_context(|| format!("{call:?}"))
}
