//! Hotplug of CPUs and memory.

use std::time::Duration;

use anyhow::{Result, ensure};
use proto::cmd::v1::Response;
use serde_json::{Value, json};
use tests::launcher_fixture::{BOOT_TIMEOUT, LauncherFixture};
use tests::not_tested::{Missing, not_tested};
use tests::pod::LauncherUser;
use tests::recorded_kubevirt_answers::comparison::{Rule, Strictness};
use tests::vmi_builder::Vmi;

use crate::kubevirt_launcher_answers::expect_recorded_shape;
use crate::volume_hotplug_fixture::wait_for_agents_reports;

async fn wait_for_file_content(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    file: &str,
    expected: &str,
) -> Result<()> {
    let has_content = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let read = fixture.commands.exec(vmi, "cat", &[file]).await.ok()?;
        (read.std_out.trim() == expected).then_some(())
    };
    tests::wait_until(&format!("{file}: {expected}"), BOOT_TIMEOUT, has_content).await
}

async fn set_cpus(fixture: &LauncherFixture, vmi: &Vmi, sockets: u32) -> Result<Response> {
    let vmi = vmi
        .clone()
        .edit(|vmi| vmi["spec"]["domain"]["cpu"]["sockets"] = json!(sockets));
    let mut client = fixture.commands.raw.clone();
    let answer = client.sync_virtual_machine_cp_us(vmi.request()).await?;
    Ok(answer.into_inner())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processors_are_plugged_up_to_the_maximum() -> Result<()> {
    let vmi = Vmi::new("cpus", LauncherUser::Nonroot);
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    wait_for_agents_reports(&fixture, &vmi).await?;
    let events = fixture.handler.events().len();
    let answer = set_cpus(&fixture, &vmi, 3).await?;
    ensure!(answer.success, "{answer:?}");
    // Linux 6.12 lets only guests of a hypervisor that it knows plug processors; QEMU's emulator is none.
    let possible = "/sys/devices/system/cpu/possible";
    let possible = fixture.commands.exec(&vmi, "cat", &[possible]).await?;
    if possible.std_out.trim() == "0" {
        let missing = Missing::MachineFeature("a guest kernel that plugs emulated processors");
        not_tested("that the guest follows", missing)?;
    } else {
        wait_for_file_content(&fixture, &vmi, "/sys/devices/system/cpu/present", "0-2").await?;
    }
    let answer = set_cpus(&fixture, &vmi, 5).await?;
    let expected = "failed to update vCPUs: virError(Code=8, Domain=10, Message='invalid argument: requested vcpus \
        is greater than max allowable vcpus for the live domain: 5 > 4')";
    ensure!(!answer.success && answer.message == expected, "{answer:?}");
    let new_events = &fixture.handler.events()[events..];
    ensure!(new_events.is_empty(), "{}", fixture.handler.history());
    fixture.end_vm(&vmi).await
}

fn with_memory(vmi: &Vmi, guest: &str) -> Vmi {
    vmi.clone().edit(|vmi| {
        vmi["spec"]["domain"]["memory"] = json!({ "guest": guest, "maxGuest": "448Mi" });
    })
}

async fn set_memory(fixture: &LauncherFixture, vmi: &Vmi) -> Result<Response> {
    let mut client = fixture.commands.raw.clone();
    let answer = client.sync_virtual_machine_memory(vmi.request()).await?;
    Ok(answer.into_inner())
}

/// Allows that the domain has no disks, unlike the recorded one.
const NO_DISKS: Rule = Rule {
    path: "V.Spec.Devices.Disks",
    strictness: Strictness::Is("null"),
    reason: "the VM has no disk",
};

/// The requested and the current size of the memory device in a domain, in KiB.
fn memory_device_sizes(domain: &Value) -> Option<(u64, u64)> {
    let target = &domain["Spec"]["Devices"]["Memory"]["Target"];
    let size = |name: &str| target[name]["Value"].as_u64();
    Some((size("Requested")?, size("Current")?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_plugged_and_unplugged_as_the_guest_follows() -> Result<()> {
    let vmi = with_memory(&Vmi::new("memory", LauncherUser::Nonroot), "192Mi");
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    // Otherwise a newer kernel puts data into plugged memory that it cannot move, and the last unplug never ends.
    let movable = "echo online_movable >/sys/devices/system/memory/auto_online_blocks";
    let answer = fixture.commands.exec(&vmi, "sh", &["-c", movable]).await?;
    ensure!(answer.exit_code == 0, "{answer:?}");
    for (guest, kib) in [("320Mi", 131_072), ("448Mi", 262_144), ("192Mi", 0)] {
        let events = fixture.handler.events().len();
        let answer = set_memory(&fixture, &with_memory(&vmi, guest)).await?;
        ensure!(answer.success, "{answer:?}");
        let is_plugged = |event: &tests::emulated_virt_handler::Event| {
            memory_device_sizes(event.domain()) == Some((kib, kib))
        };
        fixture
            .handler
            .wait_for(
                &format!("{kib} KiB plugged"),
                events,
                BOOT_TIMEOUT,
                is_plugged,
            )
            .await?;
        expect_recorded_shape(&fixture, "07-memhotplug-slots4", 4, &[NO_DISKS]).await?;
    }
    let answer = set_memory(&fixture, &with_memory(&vmi, "64Mi")).await?;
    ensure!(
        !answer.success && answer.message.contains("spec.domain.memory.guest"),
        "{answer:?}"
    );
    fixture.end_vm(&vmi).await
}
