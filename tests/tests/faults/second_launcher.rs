//! A second launcher in the pod of a running one, which must exit with an error.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use crate::fault_row::Program;
use crate::test_vm::TestVm;

/// How long a second launcher may run until it exits with an error.
const SECOND_LAUNCHER_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs the launcher once more in the pod's namespaces, with the same user, arguments and environment.
pub(crate) async fn run_second_launcher(vm: &TestVm) -> Result<()> {
    let first = vm.process(Program::Launcher).context("no launcher runs")?;
    let pid = first.pid.as_raw_nonzero().to_string();
    let read_strings = |name: &str| -> Result<Vec<String>> {
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
        .args(read_strings("cmdline")?)
        .env_clear()
        .envs(
            read_strings("environ")?
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
            // SIGTERM lets the launcher log its end.
            for process in vm.pod.processes() {
                if process.name == "virt-launcher" && process.pod_pid != first.pod_pid {
                    let _ = rustix::process::kill_process(process.pid, Signal::TERM);
                }
            }
            let _ = tokio::time::timeout(SECOND_LAUNCHER_TIMEOUT, child.wait()).await;
            bail!("the second launcher was not refused within {SECOND_LAUNCHER_TIMEOUT:?}")
        }
    }
}
