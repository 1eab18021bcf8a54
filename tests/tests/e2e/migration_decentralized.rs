//! A migration to another VMI, as between two clusters: another namespace, name and UID.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::migration::{
    MigrationPods, PreparedMigration, Proxies, SOURCE_POD, TARGET_POD, defined_domains,
    inactive_xml, migration_of, stock_options,
};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

pub(crate) const SOURCE_UID: &str = "4d4d0000-0000-4000-8000-000000000031";
pub(crate) const TARGET_UID: &str = "4d4d0000-0000-4000-8000-000000000032";
const TARGET_VMI_UID: &str = "7a6d0000-0000-4000-8000-000000000033";
/// Of the VM, which both VMIs are of.
pub(crate) const FIRMWARE_UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

/// The VMI with the record of the migration as `cluster`, which the other one synchronizes with, has it.
pub(crate) fn migrating(vmi: &Vmi, source: &Vmi, target: &Vmi, cluster: &str) -> Vmi {
    let side = |side: &str, vmi: &Vmi, uid: &str| {
        let mut state = json!({
            "migrationUID": uid, "domainName": vmi.name(), "domainNamespace": vmi.namespace(),
            "virtualMachineInstanceUID": vmi.uid(),
        });
        if side != cluster {
            state["syncAddress"] = json!("192.0.2.1:9185");
        }
        state
    };
    let own = if cluster == "source" {
        SOURCE_UID
    } else {
        TARGET_UID
    };
    let states: [Value; 2] = [
        side("source", source, SOURCE_UID),
        side("target", target, TARGET_UID),
    ];
    vmi.clone().edit(|vmi| {
        let status = &mut vmi["status"];
        status["phase"] = json!("Running");
        status["migrationTransport"] = json!("Unix");
        status["migrationMethod"] = json!("BlockMigration");
        status["migrationState"] = json!({
            "migrationUid": own, "sourcePod": SOURCE_POD, "targetPod": TARGET_POD,
            "sourceState": states[0], "targetState": states[1],
        });
    })
}

/// The same VM as a VMI of another cluster: another name, namespace and UID.
pub(crate) fn another_vmi(source: &Vmi) -> Vmi {
    source.clone().edit(|vmi| {
        vmi["metadata"]["name"] = json!("arrives");
        vmi["metadata"]["namespace"] = json!("elsewhere");
        vmi["metadata"]["uid"] = json!(TARGET_VMI_UID);
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_becomes_another_vmi() -> Result<()> {
    let source = Vmi::new("leaves", LauncherUser::Nonroot)
        .cloud_init("#cloud-config\n")
        .edit(|vmi| {
            vmi["spec"]["domain"]["firmware"]["uuid"] = json!(FIRMWARE_UUID);
            vmi["status"]["volumeStatus"] =
                json!([{ "name": "cloudinit", "target": "vda", "size": 1 << 20 }]);
        });
    let target = another_vmi(&source);
    let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
    let (one, other) = tokio::try_join!(
        prepared.source.start(&source, &[]),
        prepared.target.start(&target, &[])
    )?;
    let pods = MigrationPods {
        source: one,
        target: other,
    };
    pods.source.boot_without_controller(&source).await?;
    pods.source.wait_for_agent(&source).await?;

    let arriving = migrating(&target, &source, &target, "target");
    let answer = pods.sync_target(&arriving).await?;
    ensure!(answer.success, "{}", answer.message);
    let _proxies = Proxies::start(&pods.source.pod, &pods.target.pod, source.uid())?;
    let leaving = migrating(&source, &source, &target, "source");
    pods.migrate(&leaving, &stock_options()).await?.ok()?;
    let left = pods.wait_for_source_end(SOURCE_UID).await?;
    let record = migration_of(&left);
    ensure!(record["Failed"] != true, "{record}");
    ensure!(left.state() == "Shutoff/Migrated", "{left}");
    let arrived = pods.wait_for_target_end(TARGET_UID).await?;
    let identity = &arrived.domain()["ObjectMeta"];
    ensure!(
        identity["name"] == "arrives" && identity["namespace"] == "elsewhere",
        "{identity}"
    );
    ensure!(
        arrived.metadata()["UID"] == TARGET_VMI_UID,
        "{}",
        arrived.domain()
    );

    let finalized = pods.finalize(&arriving).await?;
    ensure!(finalized.success, "{}", finalized.message);
    pods.target.commands.sync(&target).await?.ok()?;
    pods.target.wait_for_agent(&target).await?;
    let domains = defined_domains(&pods.target.pod).await?;
    ensure!(domains == ["elsewhere_arrives"], "{domains:?}");
    let definition = inactive_xml(&pods.target.pod, &target).await?;
    for text in [FIRMWARE_UUID, TARGET_VMI_UID, "/elsewhere/arrives/"] {
        ensure!(definition.contains(text), "no {text}: {definition}");
    }
    for text in [source.uid(), "/default/leaves/"] {
        ensure!(!definition.contains(text), "{text} is left: {definition}");
    }
    pods.end_source(&source).await?.end_vm(&target).await
}
