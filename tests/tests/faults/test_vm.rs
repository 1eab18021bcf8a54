//! The VM under test: a launcher in its pod, and its virt-handler.

mod notifications;
mod phases;
mod pod_setup;

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tests::backup_export_server::ExportServer;
use tests::emulated_virt_handler::{Answer, Commands, Event, VirtHandler};
use tests::launcher_fixture::{EVENT_TIMEOUT, READY_TIMEOUT};
use tests::pod::{LauncherUser, Pod, Process};
use tests::vmi_builder::Vmi;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::fault_row::{Program, Setup};
use crate::fault_row_calls::{self, BACKUP_TIME, Call, backup_name, with_tracked_blocks};
use crate::notify_proxy::{NotifyProxy, ProxyMode};
use crate::stalled_backup_client::StalledBackupClient;

/// The time limit of a line in the guest's shell, also on a busy machine.
const GUEST_SHELL_TIMEOUT: Duration = Duration::from_secs(60);

/// The VM under test.
pub(crate) struct TestVm {
    pub(crate) pod: Pod,
    pub(crate) vmi: Vmi,
    setup: Setup,
    handler: Option<VirtHandler>,
    /// The notifications to virt-handlers that have ended.
    earlier_events: Vec<Event>,
    notify_proxy: NotifyProxy,
    directory: TempDir,
    commands: Option<Commands>,
}

impl TestVm {
    /// Creates a pod in which no launcher runs yet.
    pub(crate) fn create(setup: Setup) -> Result<TestVm> {
        let user = match setup {
            Setup::Root => LauncherUser::Root,
            _ => LauncherUser::Nonroot,
        };
        let mut pod = Pod::create(user)?;
        pod.suppress_log();
        pod_setup::set_up_pod(&pod, setup)?;
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
        let vmi = pod_setup::create_vmi(pod.user(), setup);
        Ok(TestVm {
            pod,
            vmi,
            setup,
            handler: Some(handler),
            earlier_events: Vec::new(),
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
        let grace = self.setup.grace_seconds().to_string();
        let arguments = [&["--grace-period-seconds", &grace], extra].concat();
        self.pod.start(&self.vmi, &arguments)
    }

    /// Waits for the launcher's ready socket.
    pub(crate) async fn wait_until_ready(&mut self) -> Result<()> {
        let handler = self.handler.as_ref().context("there is no virt-handler")?;
        let commands = tokio::select! {
            commands = handler.commands(READY_TIMEOUT) => commands?,
            status = self.pod.wait_for_exit(READY_TIMEOUT * 2) => bail!("the launcher ended before it was ready: {}", status?),
        };
        self.commands = Some(commands);
        Ok(())
    }

    // ---- processes
    // ---------------------------------------------------------------------------------------------------

    /// The process of a program, if the program runs.
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

    /// `NAME PID` of each process in the pod, with the PID in the pod's namespace.
    pub(crate) fn processes(&self) -> Vec<String> {
        let all = self.pod.processes();
        all.iter()
            .map(|process| format!("{} {}", process.name, process.pod_pid))
            .collect()
    }

    /// QEMU's process id.
    pub(crate) fn qemu(&self) -> Option<Pid> {
        self.process(Program::Qemu).map(|process| process.pid)
    }

    /// Types a line into the guest's shell, and waits until the shell has run it, or QEMU has ended. It reads the
    /// console itself and not its log, since some rows end the daemon that writes the log.
    pub(crate) async fn type_line(&self, line: &str) -> Result<()> {
        static LINES: AtomicU32 = AtomicU32::new(0);
        let number = LINES.fetch_add(1, Ordering::Relaxed);
        let socket = format!("/run/kubevirt-private/{}/virt-serial0", self.vmi.uid());
        let mut console = UnixStream::connect(self.pod.path(&socket)).await?;
        // The console also echoes the typed line. Only the output has the mark without quotes.
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
        let result = tokio::time::timeout(GUEST_SHELL_TIMEOUT, read).await;
        result.with_context(|| {
            format!("the guest's shell has not run {line:?} within {GUEST_SHELL_TIMEOUT:?}")
        })
    }

    // ---- virt-handler
    // ------------------------------------------------------------------------------------------------

    pub(crate) fn set_notify_proxy(&mut self, mode: ProxyMode) -> Result<()> {
        self.notify_proxy.set_mode(mode)
    }

    /// Ends virt-handler, and starts another one half a second later.
    pub(crate) async fn restart_handler(&mut self) -> Result<()> {
        self.notify_proxy.set_mode(ProxyMode::Away)?;
        self.earlier_events.extend(
            self.handler
                .take()
                .map(|handler| handler.events())
                .unwrap_or_default(),
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.handler = Some(VirtHandler::listen(self.directory.path())?);
        self.notify_proxy.set_mode(ProxyMode::Open)?;
        if self.commands.is_some() {
            self.wait_until_ready().await?;
        }
        Ok(())
    }

    /// Connects a client to the running backup that requests all data and stops reading.
    pub(crate) async fn stall_backup_client(&self) -> Result<StalledBackupClient> {
        let server = ExportServer::start(&self.pod).await?;
        let options = server.options(&backup_name(&self.vmi, false), BACKUP_TIME)?;
        StalledBackupClient::connect(
            server,
            &self.client()?,
            &with_tracked_blocks(&self.vmi),
            &options,
        )
        .await
    }

    /// virt-handler's client of the launcher.
    pub(crate) fn client(&self) -> Result<Commands> {
        self.commands
            .clone()
            .context("the launcher was not ready yet")
    }

    /// Makes a call with virt-handler's deadline.
    pub(crate) async fn ask(&self, call: Call) -> Result<Answer> {
        fault_row_calls::ask(&self.client()?, &self.vmi, call).await
    }

    /// Makes a call without waiting for its answer.
    pub(crate) fn send(&self, call: Call) -> Result<()> {
        let (client, vmi) = (self.client()?, self.vmi.clone());
        tokio::spawn(async move { fault_row_calls::ask(&client, &vmi, call).await });
        Ok(())
    }

    /// A client with a connection of its own.
    pub(crate) async fn new_client(&self) -> Result<Commands> {
        Commands::connect(&self.command_socket(), EVENT_TIMEOUT).await
    }

    pub(crate) fn command_socket(&self) -> std::path::PathBuf {
        self.pod.share_dir().join("sockets/launcher-sock")
    }
}

/// Whether a process is a QEMU with a guest. libvirt starts others to probe QEMU's capabilities.
fn is_guest(process: &Process) -> bool {
    let file = format!("/proc/{}/cmdline", process.pid.as_raw_nonzero());
    process.name == "qemu-system-x86"
        && std::fs::read_to_string(file).is_ok_and(|line| line.contains("guest="))
}
