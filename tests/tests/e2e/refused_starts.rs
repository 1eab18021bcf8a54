//! Starts that are refused. The launcher tells virt-handler the reason before it ends, and leaves it for the kubelet.
//! virt-handler makes its notification socket only after it has connected to the launcher.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tests::build_and_install_hooks as hooks;
use tests::emulated_virt_handler::{Phase, Step, StepEntry};
use tests::launcher_fixture::{PreparedPod, READY_TIMEOUT};
use tests::pod::{LauncherUser, Pod};
use tests::vmi_builder::Vmi;

const STANDING_HOOKS: &str = "/run/standing-hooks";
const POLICY: &str = "/run/hook-policy.yaml";

/// A start that is refused.
struct Row {
    name: &'static str,
    /// Changes the pod before the launcher starts.
    prepare: fn(&Pod) -> Result<()>,
    /// Arguments after virt-controller's.
    arguments: &'static [&'static str],
    exit_code: i32,
    /// The reason of the Kubernetes event.
    event: &'static str,
    /// What the message contains wherever it is shown.
    message: &'static [&'static str],
}

fn standing_hook(pod: &Pod, bytes: &[u8]) -> Result<()> {
    hooks::install_bytes(&pod.path(STANDING_HOOKS), "smbios", bytes)
}

fn smbios_module() -> Result<Vec<u8>> {
    Ok(fs::read(hooks::example("smbios-hook")?)?)
}

fn mask(pod: &Pod, programs: &[&str]) -> Result<()> {
    let mut programs = programs.iter();
    programs.try_for_each(|program| pod.mask_file(Path::new(program)))
}

const REFUSED_HOOKS: [Row; 6] = [
    Row {
        name: "missing",
        prepare: |pod| hooks::install_bytes(&pod.hooks_dir()?, "hook-sidecar-0", &smbios_module()?),
        arguments: &["--hook-sidecars", "2", "--qemu-timeout", "2s"],
        exit_code: 1,
        event: "HookFailed",
        message: &["of 2 hooks were ready", "hook-sidecar-0"],
    },
    Row {
        name: "surplus",
        prepare: |pod| {
            for name in ["hook-sidecar-0", "hook-sidecar-1"] {
                hooks::install_bytes(&pod.hooks_dir()?, name, &smbios_module()?)?;
            }
            Ok(())
        },
        arguments: &["--hook-sidecars", "1"],
        exit_code: 1,
        event: "HookFailed",
        message: &["hook-sidecar-0", "hook-sidecar-1", "--hook-sidecars"],
    },
    Row {
        name: "nomodule",
        prepare: |pod| {
            hooks::install_bytes(
                &pod.hooks_dir()?,
                "hook-sidecar-0",
                b"\x7fELF is not a component",
            )
        },
        arguments: &["--hook-sidecars", "1"],
        exit_code: 1,
        event: "HookFailed",
        message: &["hook-sidecar-0"],
    },
    Row {
        name: "truncated",
        prepare: |pod| {
            let module = smbios_module()?;
            standing_hook(pod, &module[..module.len() / 2])
        },
        arguments: &["--standing-hooks-dir", STANDING_HOOKS],
        exit_code: 1,
        event: "HookFailed",
        message: &["smbios/smbios.wasm"],
    },
    Row {
        name: "yaml",
        prepare: |pod| {
            standing_hook(pod, &smbios_module()?)?;
            let directory = pod.path(STANDING_HOOKS).join("smbios");
            Ok(fs::write(
                directory.join("hook.yaml"),
                "failurePolicy: Maybe\n",
            )?)
        },
        arguments: &["--standing-hooks-dir", STANDING_HOOKS],
        exit_code: 1,
        event: "HookFailed",
        message: &["smbios/hook.yaml:1:16", "Maybe"],
    },
    Row {
        name: "denied",
        prepare: |pod| {
            standing_hook(pod, &smbios_module()?)?;
            Ok(fs::write(
                pod.path(POLICY),
                "allow: {paths: ['/domain/devices/**']}\n",
            )?)
        },
        arguments: &[
            "--standing-hooks-dir",
            STANDING_HOOKS,
            "--hook-policy",
            POLICY,
        ],
        exit_code: 1,
        event: "HookDenied",
        message: &["hook smbios/", "/run/hook-policy.yaml:1:16 does not allow"],
    },
];

const LAUNCHERS_THAT_CANNOT_START: [Row; 7] = [
    Row {
        name: "nodaemon",
        prepare: |pod| mask(pod, &["/usr/sbin/libvirtd", "/usr/sbin/virtqemud"]),
        arguments: &["--qemu-timeout", "5s"],
        exit_code: 1,
        event: "LauncherFailed",
        message: &["virtqemud", "libvirtd"],
    },
    Row {
        name: "noqemu",
        prepare: |pod| mask(pod, &["/usr/bin/qemu-system-x86_64"]),
        arguments: &["--qemu-timeout", "5s"],
        exit_code: 1,
        event: "LauncherFailed",
        message: &["no QEMU", "qemu-system-x86"],
    },
    Row {
        name: "policy",
        prepare: |pod| Ok(fs::write(pod.path(POLICY), "allow: {pathz: []}\n")?),
        arguments: &["--hook-policy", POLICY],
        exit_code: 1,
        event: "LauncherFailed",
        message: &["/run/hook-policy.yaml:1:9", "pathz"],
    },
    Row {
        name: "directory",
        prepare: |pod| {
            let in_place = pod.path("/run/kubevirt-ephemeral-disks/cloud-init-data");
            Ok(fs::write(in_place, "a file in place of the directory")?)
        },
        arguments: &[],
        exit_code: 1,
        event: "LauncherFailed",
        message: &["creating /var/run/kubevirt-ephemeral-disks/cloud-init-data"],
    },
    Row {
        name: "lock",
        prepare: |pod| Ok(fs::create_dir(pod.path("/run/libvirt/virt-launcher.lock"))?),
        arguments: &[],
        exit_code: 1,
        event: "LauncherFailed",
        message: &["locking /var/run/libvirt/virt-launcher.lock: Is a directory"],
    },
    Row {
        name: "setting",
        prepare: |_| Ok(()),
        arguments: &["--hook-call-deadline", "soon"],
        exit_code: 2,
        event: "LauncherFailed",
        message: &["--hook-call-deadline", "soon"],
    },
    Row {
        name: "flag",
        prepare: |_| Ok(()),
        arguments: &["--of-the-next-release"],
        exit_code: 2,
        event: "LauncherFailed",
        message: &["unexpected argument '--of-the-next-release'"],
    },
];

/// A pod whose virt-handler has not connected to the launcher, and so has no notification socket.
async fn pod_without_notification_socket() -> Result<PreparedPod> {
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    prepared.handler.stop().await;
    fs::remove_file(prepared.pod.path("/run/kubevirt/domain-notify-pipe.sock"))?;
    Ok(prepared)
}

impl Row {
    async fn check(&self) -> Result<()> {
        let vmi = Vmi::new(self.name, LauncherUser::Nonroot);
        let mut prepared = pod_without_notification_socket().await?;
        (self.prepare)(&prepared.pod)?;
        prepared.pod.start(&vmi, self.arguments)?;
        prepared.handler.create(&vmi).await;
        let refusal = tokio::time::timeout(READY_TIMEOUT, prepared.handler.wait_for_refusal());
        let refusal = refusal.await.context("no refusal of the sync")??;
        let status = prepared.pod.wait_for_exit(Duration::from_secs(20)).await?;
        let log = prepared.pod.log();
        ensure!(status.code() == Some(self.exit_code), "{status}\n{log}");

        let events = prepared.handler.events();
        let events: Vec<String> = events.iter().map(ToString::to_string).collect();
        ensure!(
            matches!(&events[..], [event] if event.starts_with(&format!("Kubernetes event {}: ", self.event))),
            "one event {}, and no domain: {events:#?}",
            self.event
        );
        let last_line = log.lines().last().unwrap_or_default();
        let last_line: serde_json::Value = serde_json::from_str(last_line)?;
        let shown = [
            ("the event", events[0].as_str()),
            ("the answer to the sync", &refusal),
            (
                "the termination message",
                &prepared.pod.termination_message()?,
            ),
            (
                "the last line of the log",
                last_line["msg"].as_str().unwrap_or_default(),
            ),
        ];
        for (place, text) in shown {
            for part in self.message {
                ensure!(text.contains(part), "{place} lacks {part}: {text}\n{log}");
            }
        }
        let socket = prepared.pod.path("/run/kubevirt/sockets/launcher-sock");
        ensure!(!socket.exists(), "{} is left", socket.display());
        let handler = &prepared.handler;
        handler.wait_for_phase(Phase::Failed, READY_TIMEOUT).await?;
        let is_sync = |entry: &&StepEntry| matches!(entry.step, Step::Called { method, .. } if method == "SyncVirtualMachine");
        // virt-handler would remove the reason from the VMI after a second one.
        let syncs = handler.steps().iter().filter(is_sync).count();
        ensure!(syncs == 1, "{syncs} syncs: {}", handler.history());
        handler.check()
    }
}

async fn check(rows: &[Row]) -> Result<()> {
    let mut failures = Vec::new();
    for row in rows {
        if let Err(error) = row.check().await {
            failures.push(format!("{}: {error:#}", row.name));
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hook_that_cannot_run_refuses_the_start_and_virt_handler_is_told_why() -> Result<()> {
    check(&REFUSED_HOOKS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn launcher_that_cannot_start_tells_virt_handler_why() -> Result<()> {
    check(&LAUNCHERS_THAT_CANNOT_START).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_a_refused_start_are_answered_with_its_reason_until_a_delete() -> Result<()> {
    let vmi = Vmi::new("answers", LauncherUser::Nonroot);
    let mut prepared = pod_without_notification_socket().await?;
    prepared
        .pod
        .start(&vmi, &["--hook-sidecars", "1", "--qemu-timeout", "1s"])?;
    let commands = prepared.handler.commands(READY_TIMEOUT).await?;
    commands.ping().await?.accepted()?;
    assert_eq!(commands.domain().await?, serde_json::Value::Null);
    for answer in [
        commands.pause(&vmi).await?,
        commands.sync(&vmi).await?,
        commands.sync(&vmi).await?,
    ] {
        assert!(!answer.success);
        assert!(
            answer.message.contains("0 of 1 hooks"),
            "{}",
            answer.message
        );
    }
    assert!(prepared.pod.qemu().is_none() && prepared.pod.daemon().is_none());
    // Another VM's end is not this one's.
    let other = Vmi::new("other", LauncherUser::Nonroot);
    assert!(!commands.delete(&other).await?.success);
    commands.delete(&vmi).await?.accepted()?;
    let status = prepared.pod.wait_for_exit(Duration::from_secs(10)).await?;
    assert_eq!(status.code(), Some(1), "{}", prepared.pod.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_a_refused_start_before_virt_handler_comes() -> Result<()> {
    let vmi = Vmi::new("sigterm", LauncherUser::Nonroot);
    let mut prepared = pod_without_notification_socket().await?;
    prepared
        .pod
        .start(&vmi, &["--hook-sidecars", "1", "--qemu-timeout", "1s"])?;
    prepared.handler.commands(READY_TIMEOUT).await?;
    prepared.pod.signal(Signal::TERM)?;
    let status = prepared.pod.wait_for_exit(Duration::from_secs(10)).await?;
    assert_eq!(status.code(), Some(1), "{}", prepared.pod.log());
    let message = prepared.pod.termination_message()?;
    assert!(message.contains("0 of 1 hooks"), "{message}");
    Ok(())
}
