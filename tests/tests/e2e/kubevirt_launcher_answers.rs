//! The calls that were recorded with KubeVirt's launcher, made again: every answer is compared whole, field by field, but for
//! the differences that `tests::recorded_answers` lists with their reasons.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::binaries::workspace;
use tests::launcher_fixture::{BOOT, EVENT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::recorded_answers::calls_not_replayed::{self, Check, OTHER_TOPICS};
use tests::recorded_answers::comparison::Rule;
use tests::recorded_answers::{self, Outcome, RecordedCall, allowed_outcomes, replayed_call};
use tests::vmi_builder::Vmi;

/// The topics of each VM, in the order in which they are replayed.
const OF_AGENT: [&str; 4] = ["02-answers", "02-vmstats", "04-pause", "03-freeze"];
const OF_JOBS: [&str; 4] = [
    "06-memorydump",
    "08-backup",
    "08-backup-pull",
    "09-shutdown",
];
/// The recorded VMI's uid.
const RECORDED_UID: &str = "1234";
const EMPTY_DISK: &str = "/var/run/libvirt/empty-disks/empty.qcow2";
const DISKS: &str = "/var/run/kubevirt-private/vmi-disks/data";

/// A VM of the recordings, and what differed so far.
struct Replay {
    fixture: LauncherFixture,
    vmi: Vmi,
    differences: Vec<String>,
    /// The rules about differences that were needed so far.
    needed_rules: BTreeSet<String>,
}

/// The recorded VMI, which boots our guest and has a uid of its own.
fn recorded_vmi(name: &str, like: &Vmi) -> Result<Vmi> {
    let recorded = recorded_answers::vmi(name)?;
    let uid = like.uid().to_owned();
    Ok(like.clone().edit(|vmi| {
        let kernel_boot = vmi["spec"]["domain"]["firmware"]["kernelBoot"].take();
        *vmi = recorded;
        vmi["metadata"]["uid"] = json!(uid);
        vmi["spec"]["domain"]["firmware"]["kernelBoot"] = kernel_boot;
    }))
}

/// Puts an image with a file system where the launcher makes an empty disk if there is none.
fn make_empty_disk(prepared: &PreparedPod) -> Result<()> {
    let image = prepared.pod.path(EMPTY_DISK);
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

impl Replay {
    async fn boot(name: &str, prepare: impl FnOnce(&PreparedPod) -> Result<()>) -> Result<Replay> {
        let vmi = recorded_vmi(name, &Vmi::new("vm1", LauncherUser::Root))?;
        let prepared = PreparedPod::create(LauncherUser::Root)?;
        make_empty_disk(&prepared)?;
        prepare(&prepared)?;
        let fixture = prepared.start(&vmi, &["--vm-stats-collector"]).await?;
        fixture.boot_without_controller(&vmi).await?;
        let replay = Replay {
            fixture,
            vmi,
            differences: Vec::new(),
            needed_rules: BTreeSet::new(),
        };
        replay.set_up_guest().await?;
        Ok(replay)
    }

    /// The process id of the guest's agent, which starts commands itself.
    async fn agent_pid(&self) -> Option<String> {
        let commands = &self.fixture.commands;
        let shell = commands.exec(&self.vmi, "sh", &["-c", "echo $PPID"]).await;
        Some(shell.ok()?.std_out).filter(|pid| !pid.is_empty())
    }

    /// Makes our guest look like the recorded one, and waits until its new agent has reported it.
    async fn set_up_guest(&self) -> Result<()> {
        let script = "modprobe ext4; mkdir -p /mnt/vda; mount -t ext4 /dev/vda /mnt/vda || exit 1; hostname kvtest
            printf 'NAME=\"KV Test Guest\"\\nID=kvtest\\nVERSION_ID=1\\nPRETTY_NAME=\"KV Test Guest 1\"\\n' >/etc/os-release
            (sleep 1; killall qemu-ga) >/dev/null 2>&1 &";
        self.fixture.wait_for_agent(&self.vmi).await?;
        let old_agent = self.agent_pid().await;
        ensure!(old_agent.is_some(), "the agent runs no command");
        let commands = &self.fixture.commands;
        let done = commands.exec(&self.vmi, "sh", &["-c", script]).await?;
        ensure!(done.exit_code == 0, "{done:?}");
        // Its commands would fail if it was killed later.
        let is_restarted = async || {
            let pid = self.agent_pid().await?;
            (Some(pid) != old_agent).then_some(())
        };
        tests::until("the agent's restart", BOOT, is_restarted).await?;
        self.wait_for_guest_info("what the recorded guest is", |info| {
            info["hostname"] == "kvtest"
                && info["os"]["id"] == "kvtest"
                && info["fsFreezeStatus"] == "thawed"
                && info["fsInfo"]["disks"][0]["diskName"] == "vda"
        })
        .await
    }

    async fn wait_for_guest_info(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<()> {
        let is_reported = async || {
            tokio::time::sleep(EVENT / 50).await;
            let mut client = self.fixture.commands.raw.clone();
            let answer = client.get_guest_info(proto::cmd::v1::EmptyRequest {}).await;
            let json = answer.ok()?.into_inner().guest_info_response;
            is_it(&serde_json::from_str(&json).ok()?).then_some(())
        };
        tests::until(what, BOOT, is_reported).await
    }

    /// Makes the calls of a topic.
    async fn replay_topic(&mut self, topic: &str) -> Result<()> {
        for call in recorded_answers::calls(topic)? {
            if calls_not_replayed::skip_reason(&call).is_some() {
                continue;
            }
            let events = self.fixture.handler.events().len();
            let ours = replayed_call::replay(&self.fixture.commands, &self.vmi, &call).await?;
            let ours = with_recorded_uid(ours, self.vmi.uid())?;
            let found = allowed_outcomes::compare(&call, &ours, &mut self.needed_rules)?;
            self.differences.extend(found);
            // The rest is worth comparing, too.
            if let Err(error) = self.wait_after(&call, events).await {
                self.differences
                    .push(format!("{}: {error:#}", call.title()));
            }
        }
        Ok(())
    }

    /// Waits for what a call begins, as those who recorded did.
    async fn wait_after(&self, call: &RecordedCall, events: usize) -> Result<()> {
        let handler = &self.fixture.handler;
        match (call.method.as_str(), call.args.last().map(String::as_str)) {
            ("freeze", Some("4")) => {
                let thawed = |info: &Value| info["fsFreezeStatus"] == "thawed";
                self.wait_for_guest_info("the safety thaw", thawed).await
            }
            ("pause", _) => handler
                .wait_for_state("Paused/User", 0, EVENT)
                .await
                .map(drop),
            ("shutdown", _) => handler
                .wait_for_state("Shutoff/Shutdown", 0, BOOT)
                .await
                .map(drop),
            ("memorydump", Some(path)) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let is_over = |event: &tests::virt_handler::Event| {
                    let record = &event.metadata()["MemoryDump"];
                    record["FileName"] == name && record["Completed"] == true
                };
                handler
                    .wait_for("the end of the dump", 0, BOOT, is_over)
                    .await
                    .map(drop)
            }
            ("backup", Some(options))
                if options.contains("Push") && matches!(call.outcome, Outcome::Answered(_)) =>
            {
                let options: Value = serde_json::from_str(options)?;
                let is_over = |event: &tests::virt_handler::Event| {
                    let record = &event.metadata()["Backup"];
                    record["Name"] == options["backupName"] && record["Completed"] == true
                };
                handler
                    .wait_for("the end of the backup", events, BOOT, is_over)
                    .await
                    .map(drop)
            }
            _ => Ok(()),
        }
    }

    fn check(&mut self) -> Result<()> {
        let lines = self.differences.join("\n");
        ensure!(
            lines.is_empty(),
            "answers differ from the recordings:\n{lines}"
        );
        expect_needed_rules(std::mem::take(&mut self.needed_rules))
    }
}

/// After both replays, expects that each rule was needed by one of them.
fn expect_needed_rules(needed: BTreeSet<String>) -> Result<()> {
    static NEEDED: Mutex<Vec<BTreeSet<String>>> = Mutex::new(Vec::new());
    let mut by_replay = NEEDED.lock().unwrap();
    by_replay.push(needed);
    if by_replay.len() == 2 {
        let unneeded = allowed_outcomes::unneeded(&by_replay.iter().flatten().cloned().collect());
        ensure!(unneeded.is_empty(), "rules without effect: {unneeded:#?}");
    }
    Ok(())
}

/// An answer in which our VMI's uid is the recorded one.
fn with_recorded_uid(outcome: Outcome, uid: &str) -> Result<Outcome> {
    let value = |value: Value| -> Result<Value> {
        Ok(serde_json::from_str(
            &value.to_string().replace(uid, RECORDED_UID),
        )?)
    };
    Ok(match outcome {
        Outcome::Answered(result) => Outcome::Answered(value(result)?),
        Outcome::Refused(message, result) => Outcome::Refused(message, value(result)?),
        other => other,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_and_freezes_are_answered_as_recorded() -> Result<()> {
    let mut replay = Replay::boot("guest", |_| Ok(())).await?;
    for topic in OF_AGENT {
        replay.replay_topic(topic).await?;
        if topic == "04-pause" {
            // The recorded soft reboot takes effect after the pause.
            let console = replay.fixture.pod.console(&replay.vmi);
            console.wait_for_boots(2, BOOT).await?;
            replay.set_up_guest().await?;
        }
    }
    replay.check()?;
    replay.fixture.end_vm(&replay.vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dumps_and_backups_are_answered_as_recorded() -> Result<()> {
    let make_directories = |prepared: &PreparedPod| {
        for directory in [DISKS, "/run/kubevirt/bk", "/run/kubevirt/md"] {
            let path = prepared.pod.path(directory);
            fs::create_dir_all(&path)?;
            chown(path, Some(107), Some(107))?;
        }
        Ok(())
    };
    let mut replay = Replay::boot("cbt0", make_directories).await?;
    replay.vmi = recorded_vmi("cbt1", &replay.vmi)?;
    for topic in OF_JOBS {
        replay.replay_topic(topic).await?;
    }
    replay.check()?;
    let Replay { mut fixture, .. } = replay;
    fixture.expect_exit_code(0).await
}

/// No recorded call is left out without a reason, which is true.
#[test]
fn every_recorded_call_is_made_again_or_named() -> Result<()> {
    let replayed: Vec<&str> = OF_AGENT.iter().chain(&OF_JOBS).copied().collect();
    let topics = recorded_answers::topics()?;
    for topic in &topics {
        let is_elsewhere = OTHER_TOPICS.iter().any(|other| other.name == topic);
        ensure!(
            is_elsewhere != replayed.contains(&topic.as_str()),
            "{topic} is neither replayed nor named, or both"
        );
        ensure!(
            !recorded_answers::calls(topic)?.is_empty(),
            "{topic} has no calls"
        );
    }
    for other in OTHER_TOPICS {
        ensure!(topics.iter().any(|topic| topic == other.name), "{other:?}");
        ensure!(exists(other.check)?, "{other:?}");
    }
    let calls: Result<Vec<_>> = replayed
        .iter()
        .map(|topic| recorded_answers::calls(topic))
        .collect();
    let unneeded = calls_not_replayed::unneeded_skip_rules(&calls?.concat());
    ensure!(unneeded.is_empty(), "no call is skipped by {unneeded:?}");
    let page = fs::read_to_string(workspace().join("docs/command-service.md"))?;
    let share = format!("{} of {} topics", replayed.len(), topics.len());
    ensure!(
        page.contains(&share),
        "docs/command-service.md does not say: {share}"
    );
    Ok(())
}

/// Whether there is the test, the row or the script.
fn exists(check: Check) -> Result<bool> {
    let workspace = workspace();
    Ok(match check {
        Check::Test(name) => ["tests/tests/e2e", "src/launcher/tests/launcher"]
            .iter()
            .any(|directory| contains(&workspace.join(directory), &format!("fn {name}("))),
        Check::FaultRow(name) => {
            let table = workspace.join("tests/tests/faults/fault_matrix.rs");
            fs::read_to_string(table)?.contains(&format!("row(\"{name}\","))
        }
        Check::Script(path) => workspace.join(path).is_file(),
        Check::Nowhere => true,
    })
}

/// Whether a file of a directory contains a text.
fn contains(directory: &Path, text: &str) -> bool {
    let mut files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.any(|file| fs::read_to_string(file.path()).is_ok_and(|content| content.contains(text)))
}

/// Compares the domain with the recorded one, in names, types and presence: the VM is another one, without what `absent`
/// lists.
pub(crate) async fn expect_recorded_shape(
    fixture: &LauncherFixture,
    topic: &str,
    index: usize,
    absent: &[Rule],
) -> Result<()> {
    let calls = recorded_answers::calls(topic)?;
    let call = calls.get(index).context("no such call")?;
    let domain = fixture.commands.domain().await?;
    let ours = json!({ "Exists": true, "V": domain });
    let found = allowed_outcomes::compare_shape(call, &ours, absent);
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}
