//! Replays the calls that were recorded with KubeVirt's launcher, and compares every answer field by field. Only the
//! differences that `tests::recorded_kubevirt_answers` lists are allowed.

mod replay_vm;

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::binaries::workspace;
use tests::launcher_fixture::{BOOT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::recorded_kubevirt_answers::calls_not_replayed::{self, Coverage, TOPICS_NOT_REPLAYED};
use tests::recorded_kubevirt_answers::comparison::Rule;
use tests::recorded_kubevirt_answers::{self, outcome_comparison};

use replay_vm::{ReplayVm, recorded_vmi};

/// The topics that are replayed on the VM with the guest agent, in their order.
const AGENT_TOPICS: [&str; 4] = ["02-answers", "02-vmstats", "04-pause", "03-freeze"];
/// The topics that are replayed on the VM with dumps and backups, in their order.
const JOB_TOPICS: [&str; 4] = [
    "06-memorydump",
    "08-backup",
    "08-backup-pull",
    "09-shutdown",
];
const DATA_VOLUME_PATH: &str = "/var/run/kubevirt-private/vmi-disks/data";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_and_freezes_are_answered_as_recorded() -> Result<()> {
    let mut replay = ReplayVm::boot("guest", |_| Ok(())).await?;
    for topic in AGENT_TOPICS {
        replay.replay_topic(topic).await?;
        if topic == "04-pause" {
            // The recorded soft reboot takes effect after the pause.
            let console = replay.fixture.pod.console(&replay.vmi);
            console.wait_for_boots(2, BOOT_TIMEOUT).await?;
            replay.set_up_guest().await?;
        }
    }
    replay.check_differences()?;
    replay.fixture.end_vm(&replay.vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dumps_and_backups_are_answered_as_recorded() -> Result<()> {
    let make_directories = |prepared: &PreparedPod| {
        for directory in [DATA_VOLUME_PATH, "/run/kubevirt/bk", "/run/kubevirt/md"] {
            let path = prepared.pod.path(directory);
            fs::create_dir_all(&path)?;
            chown(path, Some(107), Some(107))?;
        }
        Ok(())
    };
    let mut replay = ReplayVm::boot("cbt0", make_directories).await?;
    replay.vmi = recorded_vmi("cbt1", &replay.vmi)?;
    for topic in JOB_TOPICS {
        replay.replay_topic(topic).await?;
    }
    replay.check_differences()?;
    let ReplayVm { mut fixture, .. } = replay;
    fixture.expect_exit_code(0).await
}

/// Every recorded call is replayed, or listed with a reason and what covers it.
#[test]
fn every_recorded_call_is_made_again_or_named() -> Result<()> {
    let replayed: Vec<&str> = AGENT_TOPICS.iter().chain(&JOB_TOPICS).copied().collect();
    let topics = recorded_kubevirt_answers::topics()?;
    for topic in &topics {
        let is_listed = TOPICS_NOT_REPLAYED
            .iter()
            .any(|topic_not_replayed| topic_not_replayed.name == topic);
        ensure!(
            is_listed != replayed.contains(&topic.as_str()),
            "{topic} is neither replayed nor named, or both"
        );
        ensure!(
            !recorded_kubevirt_answers::calls(topic)?.is_empty(),
            "{topic} has no calls"
        );
    }
    for topic_not_replayed in TOPICS_NOT_REPLAYED {
        ensure!(
            topics.iter().any(|topic| topic == topic_not_replayed.name),
            "{topic_not_replayed:?}"
        );
        ensure!(
            exists(topic_not_replayed.coverage)?,
            "{topic_not_replayed:?}"
        );
    }
    let calls: Result<Vec<_>> = replayed
        .iter()
        .map(|topic| recorded_kubevirt_answers::calls(topic))
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

/// Whether the test, the row or the script exists.
fn exists(coverage: Coverage) -> Result<bool> {
    let workspace = workspace();
    Ok(match coverage {
        Coverage::Test(name) => [
            "tests/tests/e2e",
            "src/launcher/tests/launcher_on_fake_libvirt",
        ]
        .iter()
        .any(|directory| contains(&workspace.join(directory), &format!("fn {name}("))),
        Coverage::FaultRow(name) => {
            let table = workspace.join("tests/tests/faults/fault_matrix.rs");
            fs::read_to_string(table)?.contains(&format!("row(\"{name}\","))
        }
        Coverage::Script(path) => workspace.join(path).is_file(),
        Coverage::OtherRecording => true,
    })
}

/// Whether a file below a directory contains a text.
fn contains(directory: &Path, text: &str) -> bool {
    let mut files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.any(|file| {
        let path = file.path();
        contains(&path, text)
            || fs::read_to_string(path).is_ok_and(|content| content.contains(text))
    })
}

/// Compares the shape of the domain with the recorded domain of another VM: names, types and presence of the fields,
/// except the fields that `absent` rules allow to be missing.
pub(crate) async fn expect_recorded_shape(
    fixture: &LauncherFixture,
    topic: &str,
    index: usize,
    absent: &[Rule],
) -> Result<()> {
    let calls = recorded_kubevirt_answers::calls(topic)?;
    let call = calls.get(index).context("no such call")?;
    let domain = fixture.commands.domain().await?;
    let ours = json!({ "Exists": true, "V": domain });
    let differences = outcome_comparison::compare_shape(call, &ours, absent);
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}
