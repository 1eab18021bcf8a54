//! A VM on which recorded calls are replayed.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::recorded_kubevirt_answers::{
    self, Outcome, RecordedCall, call_replay, calls_not_replayed, outcome_comparison,
};
use tests::vmi_builder::Vmi;

/// The UID of the recorded VMI.
const RECORDED_UID: &str = "1234";

const EMPTY_DISK_PATH: &str = "/var/run/libvirt/empty-disks/empty.qcow2";

/// A VM on which calls are replayed, with the differences so far.
pub(super) struct ReplayVm {
    pub(super) fixture: LauncherFixture,
    pub(super) vmi: Vmi,
    differences: Vec<String>,
    /// The titles of the rules that were needed so far.
    needed_rules: BTreeSet<String>,
}

/// The recorded VMI with the kernel and the UID of our own VMI.
pub(super) fn recorded_vmi(name: &str, own_vmi: &Vmi) -> Result<Vmi> {
    let recorded = recorded_kubevirt_answers::vmi(name)?;
    let uid = own_vmi.uid().to_owned();
    Ok(own_vmi.clone().edit(|vmi| {
        let kernel_boot = vmi["spec"]["domain"]["firmware"]["kernelBoot"].take();
        *vmi = recorded;
        vmi["metadata"]["uid"] = json!(uid);
        vmi["spec"]["domain"]["firmware"]["kernelBoot"] = kernel_boot;
    }))
}

/// Creates an image with a file system at the path where the launcher would create an empty disk.
fn make_empty_disk(prepared: &PreparedPod) -> Result<()> {
    let image = prepared.pod.path(EMPTY_DISK_PATH);
    let directory = image.parent().context("no directory")?;
    fs::create_dir_all(directory)?;
    let raw = directory.join("raw");
    fs::File::create(&raw)?.set_len(64 << 20)?;
    let run = |program: &str, arguments: &[&str]| -> Result<()> {
        let mut command = Command::new(program);
        let command = command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
        let output = command
            .args(arguments)
            .output()
            .context(program.to_owned())?;
        ensure!(output.status.success(), "{program}: {output:?}");
        Ok(())
    };
    let (raw_path, image_path) = (raw.to_string_lossy(), image.to_string_lossy());
    run("mkfs.ext4", &["-q", "-F", &raw_path])?;
    run(
        "qemu-img",
        &[
            "convert",
            "-f",
            "raw",
            "-O",
            "qcow2",
            &raw_path,
            &image_path,
        ],
    )?;
    Ok(fs::remove_file(raw)?)
}

impl ReplayVm {
    /// Boots the recorded VMI in a pod that `prepare` has changed.
    pub(super) async fn boot(
        name: &str,
        prepare: impl FnOnce(&PreparedPod) -> Result<()>,
    ) -> Result<ReplayVm> {
        let vmi = recorded_vmi(name, &Vmi::new("vm1", LauncherUser::Root))?;
        let prepared = PreparedPod::create(LauncherUser::Root)?;
        make_empty_disk(&prepared)?;
        prepare(&prepared)?;
        let fixture = prepared.start(&vmi, &["--vm-stats-collector"]).await?;
        fixture.boot_without_controller(&vmi).await?;
        let replay = ReplayVm {
            fixture,
            vmi,
            differences: Vec::new(),
            needed_rules: BTreeSet::new(),
        };
        replay.set_up_guest().await?;
        Ok(replay)
    }

    /// The process ID of the guest agent, which is the parent of the commands that it runs.
    async fn agent_pid(&self) -> Option<String> {
        let commands = &self.fixture.commands;
        let shell = commands.exec(&self.vmi, "sh", &["-c", "echo $PPID"]).await;
        Some(shell.ok()?.std_out).filter(|pid| !pid.is_empty())
    }

    /// Changes the guest's host name, OS and file systems to those of the recorded guest, and waits until its restarted
    /// agent has reported them.
    pub(super) async fn set_up_guest(&self) -> Result<()> {
        let script = "modprobe ext4; mkdir -p /mnt/vda; mount -t ext4 /dev/vda /mnt/vda || exit 1; hostname kvtest
            printf 'NAME=\"KV Test Guest\"\\nID=kvtest\\nVERSION_ID=1\\nPRETTY_NAME=\"KV Test Guest 1\"\\n' >/etc/os-release
            (sleep 1; killall qemu-ga) >/dev/null 2>&1 &";
        self.fixture.wait_for_agent(&self.vmi).await?;
        let old_agent = self.agent_pid().await;
        ensure!(old_agent.is_some(), "the agent runs no command");
        let commands = &self.fixture.commands;
        let answer = commands.exec(&self.vmi, "sh", &["-c", script]).await?;
        ensure!(answer.exit_code == 0, "{answer:?}");
        // A command fails if the agent is killed while the command runs.
        let is_restarted = async || {
            let pid = self.agent_pid().await?;
            (Some(pid) != old_agent).then_some(())
        };
        tests::wait_until("the agent's restart", BOOT_TIMEOUT, is_restarted).await?;
        self.wait_for_guest_info("what the recorded guest is", |info| {
            info["hostname"] == "kvtest"
                && info["os"]["id"] == "kvtest"
                && info["fsFreezeStatus"] == "thawed"
                && info["fsInfo"]["disks"][0]["diskName"] == "vda"
        })
        .await
    }

    async fn wait_for_guest_info(
        &self,
        what: &str,
        is_expected: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let is_reported = async || {
            tokio::time::sleep(EVENT_TIMEOUT / 50).await;
            let mut client = self.fixture.commands.raw.clone();
            let answer = client.get_guest_info(proto::cmd::v1::EmptyRequest {}).await;
            let json = answer.ok()?.into_inner().guest_info_response;
            is_expected(&serde_json::from_str(&json).ok()?).then_some(())
        };
        tests::wait_until(what, BOOT_TIMEOUT, is_reported).await
    }

    /// Makes the calls of a topic.
    pub(super) async fn replay_topic(&mut self, topic: &str) -> Result<()> {
        for call in recorded_kubevirt_answers::calls(topic)? {
            if calls_not_replayed::skip_reason(&call).is_some() {
                continue;
            }
            let events = self.fixture.handler.events().len();
            let ours = call_replay::replay(&self.fixture.commands, &self.vmi, &call).await?;
            let ours = with_recorded_uid(ours, self.vmi.uid())?;
            let differences = outcome_comparison::compare(&call, &ours, &mut self.needed_rules)?;
            self.differences.extend(differences);
            // The remaining calls are compared in any case.
            if let Err(error) = self.wait_after(&call, events).await {
                self.differences
                    .push(format!("{}: {error:#}", call.title()));
            }
        }
        Ok(())
    }

    /// Waits for the effect of a call, as in the recording.
    async fn wait_after(&self, call: &RecordedCall, events: usize) -> Result<()> {
        let handler = &self.fixture.handler;
        match (call.method.as_str(), call.args.last().map(String::as_str)) {
            ("freeze", Some("4")) => {
                let is_thawed = |info: &Value| info["fsFreezeStatus"] == "thawed";
                self.wait_for_guest_info("the safety thaw", is_thawed).await
            }
            ("pause", _) => handler
                .wait_for_state("Paused/User", 0, EVENT_TIMEOUT)
                .await
                .map(drop),
            ("shutdown", _) => handler
                .wait_for_state("Shutoff/Shutdown", 0, BOOT_TIMEOUT)
                .await
                .map(drop),
            ("memorydump", Some(path)) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let has_ended = |event: &tests::emulated_virt_handler::Event| {
                    let record = &event.metadata()["MemoryDump"];
                    record["FileName"] == name && record["Completed"] == true
                };
                handler
                    .wait_for("the end of the dump", 0, BOOT_TIMEOUT, has_ended)
                    .await
                    .map(drop)
            }
            ("backup", Some(options))
                if options.contains("Push") && matches!(call.outcome, Outcome::Answered(_)) =>
            {
                let options: Value = serde_json::from_str(options)?;
                let has_ended = |event: &tests::emulated_virt_handler::Event| {
                    let record = &event.metadata()["Backup"];
                    record["Name"] == options["backupName"] && record["Completed"] == true
                };
                handler
                    .wait_for("the end of the backup", events, BOOT_TIMEOUT, has_ended)
                    .await
                    .map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Fails if there were differences.
    pub(super) fn check_differences(&mut self) -> Result<()> {
        let lines = self.differences.join("\n");
        ensure!(
            lines.is_empty(),
            "answers differ from the recordings:\n{lines}"
        );
        expect_needed_rules(std::mem::take(&mut self.needed_rules))
    }
}

/// After both replays, checks that one of them needed each rule.
fn expect_needed_rules(needed_rules: BTreeSet<String>) -> Result<()> {
    static NEEDED_RULES: Mutex<Vec<BTreeSet<String>>> = Mutex::new(Vec::new());
    let mut by_replay = NEEDED_RULES.lock().unwrap();
    by_replay.push(needed_rules);
    if by_replay.len() == 2 {
        let unneeded =
            outcome_comparison::unneeded_rules(&by_replay.iter().flatten().cloned().collect());
        ensure!(unneeded.is_empty(), "rules without effect: {unneeded:#?}");
    }
    Ok(())
}

/// The outcome with the recorded UID in place of our VMI's.
fn with_recorded_uid(outcome: Outcome, uid: &str) -> Result<Outcome> {
    let replace_uid = |value: Value| -> Result<Value> {
        Ok(serde_json::from_str(
            &value.to_string().replace(uid, RECORDED_UID),
        )?)
    };
    Ok(match outcome {
        Outcome::Answered(result) => Outcome::Answered(replace_uid(result)?),
        Outcome::Refused(message, result) => Outcome::Refused(message, replace_uid(result)?),
        topic_not_replayed => topic_not_replayed,
    })
}
