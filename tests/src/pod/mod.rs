//! A pod: the launcher's container, made of namespaces.
//!
//! Its `/run`, `/etc/libvirt` and `/var/{lib,log,cache}/libvirt` are directories of this machine under one temporary
//! directory, so that a test reads and writes them like any other, also after the end. Process 1 is what a
//! container's would be, the monitor. Its `/dev` has no `kvm`: every machine tests plain emulation.

mod processes;

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub use crate::launcher_user::LauncherUser;
pub use processes::Process;

use crate::binaries::binary;
use crate::console_log::ConsoleLog;
use crate::pod_semaphore::{self, PodPermit};
use crate::vmi_builder::Vmi;

/// QEMU's user and group in KubeVirt.
const QEMU: u32 = 107;

/// KubeVirt's image contains these two configuration files.
const QEMU_CONF: &str = "stdio_handler = \"logd\"\nvnc_listen = \"0.0.0.0\"\nvnc_tls = 0\nvnc_sasl = 0\n\
    user = \"qemu\"\ngroup = \"qemu\"\ndynamic_ownership = 1\nremember_owner = 0\nnamespaces = [ ]\n\
    cgroup_controllers = [ ]\n";
const VIRTQEMUD_CONF: &str = "listen_tls = 0\nlisten_tcp = 0\nlog_outputs = \"1:stderr\"\n";

/// What `unshare` needs of a user who is not root: a user namespace in which that user is uid 107.
const UNPRIVILEGED: &[&str] = &["--map-user=107", "--map-group=107", "--keep-caps"];

/// A pod. Dropping it ends all its processes.
#[derive(Debug)]
pub struct Pod {
    directory: TempDir,
    user: LauncherUser,
    environment: Vec<(String, String)>,
    child: Option<Child>,
    init: Option<Pid>,
    is_log_suppressed: bool,
    /// Where KubeVirt's own launcher and monitor are, if the pod runs those.
    stock_launcher: Option<PathBuf>,
    /// Who makes the namespaces, if not the user of this process.
    creator: Option<u32>,
    _permit: PodPermit,
}

impl Pod {
    /// An empty pod, once there is a free [`pod_semaphore`] for it. Needs root, and fails with a message otherwise.
    pub fn create(user: LauncherUser) -> Result<Pod> {
        if !is_root() {
            bail!(
                "pods are made of mount and pid namespaces, which needs root: run this as root, or 'make test'"
            );
        }
        Pod::create_as(user)
    }

    /// A pod for libvirt's test driver, where no daemon runs and no QEMU. For who is not root its uid 107 is one of
    /// a user namespace, who is this process's user outside.
    pub fn create_unprivileged() -> Result<Pod> {
        Pod::create_as(LauncherUser::Nonroot)
    }

    fn create_as(user: LauncherUser) -> Result<Pod> {
        let permit = pod_semaphore::acquire()?;
        let directory = tempfile::Builder::new().prefix("pod-").tempdir()?;
        let pod = Pod {
            directory,
            user,
            environment: Vec::new(),
            child: None,
            init: None,
            is_log_suppressed: false,
            stock_launcher: None,
            creator: None,
            _permit: permit,
        };
        pod.create_directories()?;
        Ok(pod)
    }

    fn create_directories(&self) -> Result<()> {
        let root = self.directory.path();
        fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
        for name in [
            "run",
            "etc-libvirt",
            "var-lib-libvirt",
            "var-log-libvirt",
            "var-cache-libvirt",
            "mask",
            "masked",
            "bin",
        ] {
            create_owned_dir(&root.join(name), 0o755)?;
        }
        fs::write(root.join("etc-libvirt/qemu.conf"), QEMU_CONF)?;
        fs::write(root.join("etc-libvirt/virtqemud.conf"), VIRTQEMUD_CONF)?;
        fs::write(root.join("pod.sh"), include_str!("pod.sh"))?;
        // Kubernetes makes emptyDirs like this one for a pod with fsGroup 107.
        for name in [
            "kubevirt",
            "kubevirt/sockets",
            "kubevirt/container-disks",
            "kubevirt/hotplug-disks",
            "kubevirt-private",
            "kubevirt-ephemeral-disks",
            "libvirt",
        ] {
            create_owned_dir(&root.join("run").join(name), 0o2777)?;
        }
        Ok(())
    }

    /// The path on this machine of a path in the pod. For paths below `/run`, `/var/run`, `/etc/libvirt` and
    /// `/var/{lib,log,cache}/libvirt`.
    pub fn path(&self, in_pod: &str) -> PathBuf {
        const MOUNTS: [(&str, &str); 6] = [
            ("/var/run", "run"),
            ("/run", "run"),
            ("/etc/libvirt", "etc-libvirt"),
            ("/var/lib/libvirt", "var-lib-libvirt"),
            ("/var/log/libvirt", "var-log-libvirt"),
            ("/var/cache/libvirt", "var-cache-libvirt"),
        ];
        let path = Path::new(in_pod);
        for (prefix, ours) in MOUNTS {
            if let Ok(rest) = path.strip_prefix(prefix) {
                return self.directory.path().join(ours).join(rest);
            }
        }
        path.to_owned()
    }

    /// The directory that the launcher shares with virt-handler.
    pub fn share_dir(&self) -> PathBuf {
        self.path("/run/kubevirt")
    }

    /// The hooks directory, which a pod has only when it has hooks: made at the first call.
    pub fn hooks_dir(&self) -> Result<PathBuf> {
        let directory = self.path("/run/kubevirt-hooks");
        if !directory.is_dir() {
            create_owned_dir(&directory, 0o2777)?;
        }
        Ok(directory)
    }

    /// The user that the launcher runs as in this pod.
    pub fn user(&self) -> LauncherUser {
        self.user
    }

    /// Sets up the pod's network before the launcher starts, as virt-handler does: shell commands, run as root
    /// in the pod, where everybody may open `/dev/net/tun`. `resolv_conf` is the pod's `/etc/resolv.conf`.
    pub fn set_up_network(&self, commands: &str, resolv_conf: &str) -> Result<()> {
        let root = self.directory.path();
        fs::write(root.join("resolv.conf"), resolv_conf)?;
        let prologue = include_str!("network.sh");
        Ok(fs::write(
            root.join("network.sh"),
            format!("{prologue}\n{commands}\n"),
        )?)
    }

    /// Hides a file of this machine from the pod; a masked program cannot be run there.
    pub fn mask_file(&self, masked: &Path) -> Result<()> {
        if !masked.exists() {
            return Ok(());
        }
        let name = masked.to_string_lossy().replace('/', "_");
        let empty = self.directory.path().join("mask").join(&name);
        fs::write(&empty, "")?;
        fs::set_permissions(&empty, fs::Permissions::from_mode(0o600))?;
        Ok(symlink(
            fs::canonicalize(masked)?,
            self.directory.path().join("masked").join(&name),
        )?)
    }

    /// Replaces a program by a shell script: in the pod, the script comes first in `PATH`.
    pub fn replace_program(&self, name: &str, script: &str) -> Result<()> {
        let path = self.directory.path().join("bin").join(name);
        fs::write(&path, script)?;
        Ok(fs::set_permissions(
            &path,
            fs::Permissions::from_mode(0o755),
        )?)
    }

    /// Makes a link to a program of [`Pod::replace_program`] where a program of the pod looks for it.
    pub fn link_program(&self, name: &str, link: &Path) -> Result<()> {
        Ok(symlink(self.directory.path().join("bin").join(name), link)?)
    }

    /// This user makes the namespaces, as a caller of [`Pod::create_unprivileged`] who is not root does. Needs root.
    /// Before the launcher starts.
    pub fn set_creator(&mut self, uid: u32) -> Result<()> {
        self.creator = Some(uid);
        let chown = Command::new("chown")
            .args(["-R", &format!("{uid}:{uid}")])
            .arg(self.directory.path())
            .status()?;
        ensure!(chown.success(), "chown: {chown}");
        Ok(())
    }

    /// QEMU writes its output into files itself, for a libvirt without virtlogd.
    pub fn disable_virtlogd(&self) -> Result<()> {
        let path = self.directory.path().join("etc-libvirt/qemu.conf");
        let (logd, file) = ("stdio_handler = \"logd\"", "stdio_handler = \"file\"");
        Ok(fs::write(path, QEMU_CONF.replace(logd, file))?)
    }

    /// The pod has no `/dev/userfaultfd`. Before the launcher starts.
    pub fn hide_userfaultfd(&self) -> Result<()> {
        Ok(fs::write(self.directory.path().join("no-userfaultfd"), "")?)
    }

    /// The pod runs KubeVirt's own `virt-launcher` and `virt-launcher-monitor`, which are in `directory`. Before the launcher
    /// starts.
    pub fn use_stock_launcher(&mut self, directory: &Path) -> Result<()> {
        self.stock_launcher = Some(directory.to_owned());
        let script = self.directory.path().join("stock_image_additions.sh");
        Ok(fs::write(script, include_str!("stock_image_additions.sh"))?)
    }

    /// Does not print the pod's log when it is dropped.
    pub fn suppress_log(&mut self) {
        self.is_log_suppressed = true;
    }

    /// Gives the pod's libvirt an identity of its own, as on another node: a VM does not migrate within one host. Before
    /// the launcher starts.
    pub fn set_host_uuid(&self, uuid: &str) -> Result<()> {
        let path = self.directory.path().join("etc-libvirt/virtqemud.conf");
        Ok(fs::write(
            path,
            format!("{VIRTQEMUD_CONF}host_uuid = \"{uuid}\"\n"),
        )?)
    }

    /// Makes `virt-hook` libvirt's hook in the pod, as an image has it. Before the launcher starts.
    pub fn install_libvirt_hook(&self) -> Result<()> {
        let client = self.directory.path().join("bin/libvirt-hook-client");
        install_program(&binary("virt-hook")?, &client)?;
        self.create_qemu_dir("/run/kubevirt-private/backend-storage-meta")?;
        let hooks = self.create_qemu_dir("/etc/libvirt/hooks")?;
        Ok(symlink(client, hooks.join("qemu"))?)
    }

    /// The pod's image has `client` as `/usr/bin/libvirt-hook-client`, and as libvirt's hook a script that refuses everything,
    /// in place of that of [`Pod::install_libvirt_hook`]. Before the launcher starts.
    pub fn install_hook_client_in_image(&self, client: &Path) -> Result<()> {
        let programs = self.directory.path().join("usr/bin");
        fs::create_dir_all(&programs)?;
        install_program(client, &programs.join("libvirt-hook-client"))?;
        let hook = self.path("/etc/libvirt/hooks/qemu");
        fs::remove_file(&hook)?;
        fs::write(&hook, "#!/bin/sh\necho the hook of the image >&2\nexit 1\n")?;
        Ok(fs::set_permissions(
            &hook,
            fs::Permissions::from_mode(0o755),
        )?)
    }

    /// libvirt's socket, as libvirt's clients on this machine reach it.
    pub fn libvirt_socket(&self) -> PathBuf {
        // `libvirtd` stands in for `virtqemud` where a distribution has only that.
        ["virtqemud-sock", "libvirt-sock"]
            .map(|name| self.path("/run/libvirt").join(name))
            .into_iter()
            .find(|path| path.exists())
            .unwrap_or_else(|| self.path("/run/libvirt/virtqemud-sock"))
    }

    /// Makes a directory that belongs to QEMU's user.
    pub fn create_qemu_dir(&self, in_pod: &str) -> Result<PathBuf> {
        let path = self.path(in_pod);
        create_owned_dir(&path, 0o2777)?;
        Ok(path)
    }

    /// Sets an environment variable of the pod's programs.
    pub fn set_env(&mut self, name: &str, text: &str) {
        self.environment.push((name.to_owned(), text.to_owned()));
    }

    /// Starts the monitor, which starts the launcher, as virt-controller's command line would for `vmi`, with
    /// `extra` arguments after it.
    pub fn start(&mut self, vmi: &Vmi, extra: &[&str]) -> Result<()> {
        let mut arguments = vec![
            "--name",
            vmi.name(),
            "--uid",
            vmi.uid(),
            "--namespace",
            vmi.namespace(),
        ];
        arguments.extend(["--kubevirt-share-dir", "/var/run/kubevirt"]);
        arguments.extend(["--ephemeral-disk-dir", "/var/run/kubevirt-ephemeral-disks"]);
        arguments.extend(["--container-disk-dir", "/var/run/kubevirt/container-disks"]);
        arguments.extend([
            "--grace-period-seconds",
            "20",
            "--allow-emulation",
            "--ovmf-path",
            "/usr/share/OVMF",
        ]);
        // Without a limit, a hanging QEMU would look like a slow one. A test overrides it in `extra`.
        if !extra.contains(&"--qemu-timeout") {
            arguments.extend(["--qemu-timeout", "60s"]);
        }
        if self.user == LauncherUser::Nonroot {
            arguments.push("--run-as-nonroot");
        }
        arguments.extend(extra);
        self.start_with(&arguments)
    }

    /// Starts the monitor, which starts the launcher, with this command line.
    pub fn start_with(&mut self, arguments: &[&str]) -> Result<()> {
        let bin = self.directory.path().join("bin");
        for name in ["virt-launcher", "virt-launcher-monitor"] {
            let program = match &self.stock_launcher {
                Some(directory) => directory.join(name),
                None => binary(name)?,
            };
            install_program(&program, &bin.join(name))?;
        }
        self.run(&bin.join("virt-launcher-monitor"), arguments)
    }

    /// Runs any program as the pod's process 1.
    pub fn run(&mut self, program: &Path, arguments: &[&str]) -> Result<()> {
        let root = self.directory.path();
        let log = File::create(self.log_path())?;
        // The outer setpriv ends the pod with the thread that made it, should this process be killed.
        let creator = self.creator.map(|uid| {
            let (uid, gid) = (format!("--reuid={uid}"), format!("--regid={uid}"));
            [uid, gid, "--clear-groups".to_owned()]
        });
        let child = Command::new("setpriv")
            .args(creator.iter().flatten())
            .args(["--pdeathsig", "KILL", "unshare"])
            .args(if is_root() && creator.is_none() {
                &[][..]
            } else {
                UNPRIVILEGED
            })
            .args([
                "--mount",
                "--pid",
                "--net",
                "--fork",
                "--kill-child=KILL",
                "--mount-proc",
            ])
            .args([
                "sh".as_ref(),
                root.join("pod.sh").as_os_str(),
                root.as_os_str(),
            ])
            .arg(self.user.id().to_string())
            .arg(program)
            .args(arguments)
            // As in a container; cargo's variables would reach QEMU.
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("POD_NAME", "virt-launcher-test")
            .envs(self.environment.iter().map(|(name, text)| (name, text)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("setpriv and unshare (package util-linux)")?;
        self.init = Some(processes::first_child(child.id(), Duration::from_secs(5))?);
        self.child = Some(child);
        Ok(())
    }

    /// The file that takes all that the pod's programs write to their standard output and error.
    pub fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// What [`Pod::log_path`] holds so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// The lines of [`Pod::log`] that are JSON objects.
    pub fn log_entries(&self) -> Vec<Value> {
        self.log()
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The serial console of `vmi`'s guest.
    pub fn console(&self, vmi: &Vmi) -> ConsoleLog {
        ConsoleLog {
            path: self.path(&format!(
                "/run/kubevirt-private/{}/virt-serial0-log",
                vmi.uid()
            )),
        }
    }

    /// The pod's processes, its first one included.
    pub fn processes(&self) -> Vec<Process> {
        self.init.map(processes::of_pod).unwrap_or_default()
    }

    /// The pod's process called `name` (the first 15 bytes of its program's name), if it runs.
    pub fn process(&self, name: &str) -> Option<Process> {
        let name = &name[..name.len().min(15)];
        self.processes()
            .into_iter()
            .find(|process| process.name == name)
    }

    /// The pod's QEMU, if it runs.
    pub fn qemu(&self) -> Option<Process> {
        self.process("qemu-system-x86_64")
    }

    /// The libvirt daemon of the pod, if it runs.
    pub fn daemon(&self) -> Option<Process> {
        self.process("virtqemud")
            .or_else(|| self.process("libvirtd"))
    }

    /// Sends a signal to the pod's process 1, as the kubelet does.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let init = self.init.context("the pod was not started")?;
        Ok(kill_process(init, signal)?)
    }

    /// Waits for the pod's process 1 to end.
    pub async fn wait_for_exit(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let begin = Instant::now();
        let child = self.child.as_mut().context("the pod was not started")?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if begin.elapsed() > deadline {
                bail!(
                    "the pod still runs after {deadline:?}; its log:\n{}",
                    self.log()
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if !self.is_log_suppressed {
            self.print_log();
        }
        let Some(mut child) = self.child.take() else {
            return;
        };
        if let (Ok(None), Some(init)) = (child.try_wait(), self.init) {
            let _ = kill_process(init, Signal::KILL);
        }
        let _ = child.wait();
    }
}

impl Pod {
    /// Cargo shows this output only for a test that failed.
    #[allow(clippy::print_stderr)]
    fn print_log(&self) {
        eprintln!(
            "---- log of the pod ({:?}) ----\n{}---- end ----",
            self.user,
            self.log()
        );
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes a directory that belongs to QEMU's user, with exactly these permissions.
fn create_owned_dir(path: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("{}", path.display()))?;
    if is_root() {
        let owner = if mode & 0o2000 == 0 { 0 } else { QEMU };
        chown(path, Some(owner), Some(owner))?;
    }
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// Links or copies a program into the pod's directory, since uid 107 may not be able to read the workspace.
fn install_program(program: &Path, to: &Path) -> Result<()> {
    let _ = fs::remove_file(to);
    if fs::hard_link(program, to).is_err() {
        fs::copy(program, to)
            .with_context(|| format!("{} to {}", program.display(), to.display()))?;
    }
    Ok(())
}
