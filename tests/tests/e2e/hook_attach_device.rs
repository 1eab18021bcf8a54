//! Hooks at the attach of a device: a change that the running VM has, and a refusal that keeps one device away.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::{EVENT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use crate::hotplug_volumes::{base, hotplugged, put_image, wait_for_disk};

const CACHE: &str = "disk-tuning.example.com/cache";

fn disk(vmi: &Vmi, name: &str, bus: &str) -> Vmi {
    let disk = json!({ "name": name, "disk": { "bus": bus } });
    hotplugged(vmi.clone(), name, disk, "MountedToPod")
}

/// The cache modes of the disks with their volumes, as `VOLUME CACHE`, sorted.
async fn caches(fixture: &LauncherFixture) -> Result<Vec<String>> {
    let domain = fixture.commands.domain().await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let disks = domain["Spec"]["Devices"]["Disks"].as_array();
    let describe = |disk: &Value| {
        let (name, cache) = (&disk["Alias"]["Name"], &disk["Driver"]["Cache"]);
        format!("{} {}", text(name), text(cache))
    };
    let mut found: Vec<String> = disks.into_iter().flatten().map(describe).collect();
    found.sort();
    Ok(found)
}

/// The Kubernetes events about hooks that refused or failed.
fn refusals(fixture: &LauncherFixture) -> Vec<String> {
    let events = fixture.handler.events();
    let events = events.iter().filter(|event| {
        let reason = event.kubernetes_reason();
        matches!(reason, Some("HookDenied" | "HookFailed"))
    });
    events.map(ToString::to_string).collect()
}

async fn start(plain: &Vmi, modules: &[&str]) -> Result<LauncherFixture> {
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let hooks_dir = prepared.pod.hooks_dir()?;
    for (at, package) in modules.iter().enumerate() {
        let name = format!("hook-sidecar-{at}");
        hooks::install(&hooks_dir, &name, &hooks::example(package)?)?;
    }
    // Built for 0.1.0: it is called at the boot, and goes on unchanged.
    let old = tests::binaries::workspace().join("tests/fixtures/modules-of-wit-0.1/smbios.wasm");
    let name = format!("hook-sidecar-{}", modules.len());
    hooks::install(&hooks_dir, &name, &old)?;
    let count = (modules.len() + 1).to_string();
    let fixture = prepared.start(plain, &["--hook-sidecars", &count]).await?;
    fixture.boot_without_controller(plain).await?;
    fixture.wait_for_agent(plain).await?;
    Ok(fixture)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attached_disk_carries_the_hooks_change_and_a_veto_keeps_one_disk_away() -> Result<()> {
    let plain = base("attach").annotate(CACHE, "writeback");
    let fixture = start(&plain, &["disk-tuning-hook"]).await?;
    for name in ["one", "two", "three"] {
        put_image(&fixture.pod, name)?;
    }
    let with_one = disk(&plain, "one", "virtio");
    fixture.commands.sync(&with_one).await?.ok()?;
    wait_for_disk(&fixture, &with_one, "vdb", true).await?;
    ensure!(
        caches(&fixture).await? == ["empty writeback", "one writeback"],
        "{:?}",
        caches(&fixture).await?
    );

    // The hook refuses this cache mode, and looks at no disk on another bus.
    let wrong = with_one.clone().annotate(CACHE, "no-such-mode");
    let refused = disk(&disk(&wrong, "two", "virtio"), "three", "scsi");
    for _ in 0..3 {
        fixture.commands.sync(&refused).await?.ok()?;
    }
    wait_for_disk(&fixture, &refused, "sda", true).await?;
    let found = caches(&fixture).await?;
    let names: Vec<&str> = found
        .iter()
        .filter_map(|one| one.split(' ').next())
        .collect();
    ensure!(names == ["empty", "one", "three"], "{found:?}");
    let is_reported = async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        (!refusals(&fixture).is_empty()).then_some(())
    };
    tests::until("an event of the hook", EVENT, is_reported).await?;
    let events = refusals(&fixture);
    ensure!(
        events.len() == 1
            && events[0]
                .contains("HookDenied: volume two is not attached: hook hook-sidecar-0 refuses")
            && events[0].contains("disk-tuning.example.com/cache is \"no-such-mode\""),
        "{events:#?}"
    );

    // Removed and added again: the hook is asked again.
    let without = disk(&wrong, "three", "scsi");
    fixture.commands.sync(&without).await?.ok()?;
    let mended = disk(
        &with_one.clone().annotate(CACHE, "writethrough"),
        "two",
        "virtio",
    );
    fixture
        .commands
        .sync(&disk(&mended, "three", "scsi"))
        .await?
        .ok()?;
    let found = caches(&fixture).await?;
    ensure!(found.contains(&"two writethrough".to_owned()), "{found:?}");
    ensure!(refusals(&fixture).len() == 1, "{:#?}", refusals(&fixture));
    fixture.end_vm(&plain).await
}
