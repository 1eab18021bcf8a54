//! A decentralized migration, as between two clusters: the target's VMI has another namespace, name and UID.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::migration::{
    MigrationPods, PreparedMigration, Proxies, SOURCE_POD, TARGET_POD, migration_of, stock_options,
};
use tests::pod::LauncherUser;
use tests::virsh::{defined_domains, inactive_xml};
use tests::vmi_builder::Vmi;

pub(crate) const SOURCE_UID: &str = "4d4d0000-0000-4000-8000-000000000031";
pub(crate) const TARGET_UID: &str = "4d4d0000-0000-4000-8000-000000000032";
const TARGET_VMI_UID: &str = "7a6d0000-0000-4000-8000-000000000033";
/// The firmware UUID of the VM, which both VMIs have.
pub(crate) const FIRMWARE_UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

/// The VMI with the migration's state in the cluster `source` or `target`.
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
    let migration_uid = if cluster == "source" {
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
            "migrationUid": migration_uid, "sourcePod": SOURCE_POD, "targetPod": TARGET_POD,
            "sourceState": states[0], "targetState": states[1],
        });
    })
}

/// The same VM as a VMI in the target's cluster, with another name, namespace and UID.
pub(crate) fn vmi_of_target_cluster(source: &Vmi) -> Vmi {
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
    let target = vmi_of_target_cluster(&source);
    let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
    let (source_pod, target_pod) = tokio::try_join!(
        prepared.source.start(&source, &[]),
        prepared.target.start(&target, &[])
    )?;
    let pods = MigrationPods {
        source: source_pod,
        target: target_pod,
    };
    pods.source.boot_without_controller(&source).await?;
    pods.source.wait_for_agent(&source).await?;

    let target_vmi = migrating(&target, &source, &target, "target");
    let answer = pods.sync_target(&target_vmi).await?;
    ensure!(answer.success, "{}", answer.message);
    let _proxies = Proxies::start(&pods.source.pod, &pods.target.pod, source.uid())?;
    let source_vmi = migrating(&source, &source, &target, "source");
    pods.migrate(&source_vmi, &stock_options())
        .await?
        .accepted()?;
    let source_end = pods.wait_for_source_end(SOURCE_UID).await?;
    let record = migration_of(&source_end);
    ensure!(record["Failed"] != true, "{record}");
    ensure!(source_end.state() == "Shutoff/Migrated", "{source_end}");
    let target_end = pods.wait_for_target_end(TARGET_UID).await?;
    let identity = &target_end.domain()["ObjectMeta"];
    ensure!(
        identity["name"] == "arrives" && identity["namespace"] == "elsewhere",
        "{identity}"
    );
    ensure!(
        target_end.metadata()["UID"] == TARGET_VMI_UID,
        "{}",
        target_end.domain()
    );

    let finalized = pods.finalize(&target_vmi).await?;
    ensure!(finalized.success, "{}", finalized.message);
    pods.target.commands.sync(&target).await?.accepted()?;
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
