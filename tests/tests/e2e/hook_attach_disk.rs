//! Hooks at OnAttachDevice for disks: a change reaches the running VM, and a veto prevents the attach of one disk only.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use crate::volume_hotplug_fixture::{hotplugged, put_image, vmi_with_volume, wait_for_disk};

const CACHE_ANNOTATION: &str = "disk-tuning.example.com/cache";

fn with_disk(vmi: &Vmi, name: &str, bus: &str) -> Vmi {
    let disk = json!({ "name": name, "disk": { "bus": bus } });
    hotplugged(vmi.clone(), name, disk, "MountedToPod")
}

/// The cache modes of the disks with their volumes, as `VOLUME CACHE`, sorted.
async fn cache_modes(fixture: &LauncherFixture) -> Result<Vec<String>> {
    let domain = fixture.commands.domain().await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let disks = domain["Spec"]["Devices"]["Disks"].as_array();
    let describe = |disk: &Value| {
        let (name, cache) = (&disk["Alias"]["Name"], &disk["Driver"]["Cache"]);
        format!("{} {}", text(name), text(cache))
    };
    let mut modes: Vec<String> = disks.into_iter().flatten().map(describe).collect();
    modes.sort();
    Ok(modes)
}

/// The Kubernetes events about vetoes and failures of hooks.
fn refusals(fixture: &LauncherFixture) -> Vec<String> {
    let events = fixture.handler.events();
    let events = events.iter().filter(|event| {
        let reason = event.kubernetes_reason();
        matches!(reason, Some("HookDenied" | "HookFailed"))
    });
    events.map(ToString::to_string).collect()
}

async fn start(vmi: &Vmi, modules: &[&str]) -> Result<LauncherFixture> {
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let hooks_dir = prepared.pod.hooks_dir()?;
    for (index, package) in modules.iter().enumerate() {
        let name = format!("hook-sidecar-{index}");
        hooks::install(&hooks_dir, &name, &hooks::example(package)?)?;
    }
    // A module of WIT 0.1.0 has no OnAttachDevice; it is called at boot only.
    let old = tests::binaries::workspace().join("tests/fixtures/modules-of-wit-0.1/smbios.wasm");
    let name = format!("hook-sidecar-{}", modules.len());
    hooks::install(&hooks_dir, &name, &old)?;
    let count = (modules.len() + 1).to_string();
    let fixture = prepared.start(vmi, &["--hook-sidecars", &count]).await?;
    fixture.boot_without_controller(vmi).await?;
    fixture.wait_for_agent(vmi).await?;
    Ok(fixture)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attached_disk_carries_the_hooks_change_and_a_veto_keeps_one_disk_away() -> Result<()> {
    let vmi = vmi_with_volume("attach").annotate(CACHE_ANNOTATION, "writeback");
    let fixture = start(&vmi, &["disk-tuning-hook"]).await?;
    for name in ["one", "two", "three"] {
        put_image(&fixture.pod, name)?;
    }
    let with_one = with_disk(&vmi, "one", "virtio");
    fixture.commands.sync(&with_one).await?.accepted()?;
    wait_for_disk(&fixture, &with_one, "vdb", true).await?;
    ensure!(
        cache_modes(&fixture).await? == ["empty writeback", "one writeback"],
        "{:?}",
        cache_modes(&fixture).await?
    );

    // The hook refuses this cache mode, and ignores disks on other buses.
    let with_invalid_mode = with_one.clone().annotate(CACHE_ANNOTATION, "no-such-mode");
    let refused = with_disk(
        &with_disk(&with_invalid_mode, "two", "virtio"),
        "three",
        "scsi",
    );
    for _ in 0..3 {
        fixture.commands.sync(&refused).await?.accepted()?;
    }
    wait_for_disk(&fixture, &refused, "sda", true).await?;
    let modes = cache_modes(&fixture).await?;
    let names: Vec<&str> = modes
        .iter()
        .filter_map(|mode| mode.split(' ').next())
        .collect();
    ensure!(names == ["empty", "one", "three"], "{modes:?}");
    let is_reported = async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        (!refusals(&fixture).is_empty()).then_some(())
    };
    tests::wait_until("an event of the hook", EVENT_TIMEOUT, is_reported).await?;
    let events = refusals(&fixture);
    ensure!(
        events.len() == 1
            && events[0]
                .contains("HookDenied: volume two is not attached: hook hook-sidecar-0 refuses")
            && events[0].contains("disk-tuning.example.com/cache is \"no-such-mode\""),
        "{events:#?}"
    );

    // The hook is called again for a disk that is removed and added again.
    let without = with_disk(&with_invalid_mode, "three", "scsi");
    fixture.commands.sync(&without).await?.accepted()?;
    let with_valid_mode = with_disk(
        &with_one.clone().annotate(CACHE_ANNOTATION, "writethrough"),
        "two",
        "virtio",
    );
    fixture
        .commands
        .sync(&with_disk(&with_valid_mode, "three", "scsi"))
        .await?
        .accepted()?;
    let modes = cache_modes(&fixture).await?;
    ensure!(modes.contains(&"two writethrough".to_owned()), "{modes:?}");
    ensure!(refusals(&fixture).len() == 1, "{:#?}", refusals(&fixture));
    fixture.end_vm(&vmi).await
}
