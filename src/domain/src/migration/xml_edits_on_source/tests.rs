//! Edits for the target, the disks to copy, and the placement on the target's CPUs.

mod migrated_volume_edits;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{disks_to_copy, migrated_volume_disks};
use super::*;
use crate::host_facts::HostFacts;

/// The domain of a recorded block migration, with an emptyDisk (vda) and a generated cloud-init image (vdb).
const RECORDED: &str = include_str!("recorded.xml");

fn vmi(spec: Value, status: Value) -> Vmi {
    let vmi = json!({
        "metadata": {"name": "vm1", "namespace": "default", "uid": "1234"},
        "spec": spec,
        "status": status,
    });
    Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
}

fn volumes() -> Value {
    json!({"volumes": [{"name": "empty", "emptyDisk": {"capacity": "64Mi"}},
        {"name": "ci", "cloudInitNoCloud": {"userData": "#cloud-config\n"}}]})
}

fn edit_xml(xml: &str, vmi: &Vmi, edits: &TargetEdits) -> String {
    target_xml(xml.to_owned(), vmi, edits).unwrap()
}

fn document(xml: &str) -> Document {
    Document::parse(xml).unwrap()
}

#[test]
fn xml_that_needs_no_edit_is_unchanged() {
    let vmi = vmi(volumes(), json!({"migrationState": {"migrationUid": "m"}}));
    let with_disk_paths = TargetEdits {
        rewrites_disk_paths: true,
        ..TargetEdits::default()
    };
    assert_eq!(edit_xml(RECORDED, &vmi, &with_disk_paths), RECORDED);
    assert_eq!(edit_xml(RECORDED, &vmi, &TargetEdits::default()), RECORDED);
}

#[test]
fn emptydisk_and_generated_images_are_copied() {
    let vmi = vmi(volumes(), json!({"migrationMethod": "BlockMigration"}));
    assert_eq!(disks_to_copy(&vmi, &document(RECORDED)), ["vda", "vdb"]);
}

#[test]
fn decentralized_target_gets_its_own_directories_and_uid() {
    let state = json!({"migrationState": {"sourceState": {"syncAddress": "a"}, "targetState": {
        "domainNamespace": "other", "domainName": "vm2", "virtualMachineInstanceUID": "5678"}}});
    let vmi = vmi(volumes(), state);
    let without_disk_paths = edit_xml(RECORDED, &vmi, &TargetEdits::default());
    assert_eq!(without_disk_paths, RECORDED.replace("1234", "5678"));
    let edits = TargetEdits {
        rewrites_disk_paths: true,
        ..TargetEdits::default()
    };
    let expected = without_disk_paths.replace(
        "cloud-init-data/default/vm1/noCloud.iso",
        "cloud-init-data/other/vm2/noCloud.iso",
    );
    assert_ne!(expected, without_disk_paths);
    assert_eq!(edit_xml(RECORDED, &vmi, &edits), expected);
}

#[test]
fn only_directories_of_the_vm_are_rewritten() {
    let xml = "<domain><devices><disk type='file'><source file='/var/run/x/run/vm1/a'/></disk>\
        <disk type='file'><source file='/run/x.img'><dataStore type='file'><source file='/d/run/vm1/b'/></dataStore>\
        </source></disk></devices></domain>";
    let vmi = json!({"metadata": {"name": "vm1", "namespace": "run", "uid": ""}, "status": {"migrationState":
        {"targetState": {"domainNamespace": "other", "domainName": "vm1"}}}});
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    let edits = TargetEdits {
        rewrites_disk_paths: true,
        ..TargetEdits::default()
    };
    let expected = xml.replace("/run/vm1/", "/other/vm1/");
    assert_eq!(edit_xml(xml, &vmi, &edits), expected);
}

fn disk(kind: &str, source: &str, alias: &str, rest: &str) -> String {
    format!(
        "<disk type='{kind}' device='disk'><source {source}/><target dev='{alias}'/>{rest}<alias name='ua-{alias}'/></disk>"
    )
}

fn domain(disks: &[String]) -> String {
    format!("<domain><devices>{}</devices></domain>", disks.concat())
}

#[test]
fn shared_read_only_cdrom_and_network_disks_are_not_copied() {
    let spec = json!({"volumes": [
        {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "data", "dataVolume": {"name": "d"}},
        {"name": "moved", "dataVolume": {"name": "d"}},
        {"name": "shared", "hostDisk": {"path": "/x", "shared": true}},
        {"name": "local", "hostDisk": {"path": "/y"}},
        {"name": "map", "configMap": {"name": "m"}},
        {"name": "sysprep", "sysprep": {}},
        {"name": "cd", "cloudInitNoCloud": {}},
        {"name": "net", "containerDisk": {"image": "i"}},
    ]});
    let vmi = vmi(spec, json!({"migratedVolumes": [{"volumeName": "moved"}]}));
    let file = |alias: &str, rest: &str| disk("file", "file='/f'", alias, rest);
    let mut disks: Vec<String> = ["claim", "data", "moved", "shared", "local"]
        .iter()
        .map(|alias| file(alias, ""))
        .collect();
    disks.push(file("map", "<readonly/>"));
    disks.push(file("sysprep", "<readonly/>"));
    disks.push(file("cd", "").replace("device='disk'", "device='cdrom'"));
    disks.push(disk("network", "protocol='nbd'", "net", ""));
    let domain = document(&domain(&disks));
    assert_eq!(disks_to_copy(&vmi, &domain), ["moved", "local", "map"]);
    let moved = ("moved".to_owned(), "/f".to_owned());
    assert_eq!(migrated_volume_disks(&vmi, &domain), [moved]);
}

/// A VMI with dedicated CPUs and this migration state.
fn dedicated_cpus(target: Value) -> Vmi {
    let spec = json!({"architecture": "amd64", "domain": {"memory": {"guest": "128Mi"},
        "cpu": {"cores": 2, "sockets": 1, "threads": 1, "dedicatedCpuPlacement": true}}});
    vmi(spec, json!({"migrationState": target}))
}

#[test]
fn dedicated_cpus_are_those_of_the_target() {
    let topology = json!({"numa_cells": [{"id": 0, "cpus": [{"id": 4, "siblings": [4]}, {"id": 5, "siblings": [5]}]}]});
    let vmi =
        dedicated_cpus(json!({"targetCPUSet": [4, 5], "targetNodeTopology": topology.to_string()}));
    let cpu_placement = TargetCpuPlacement::of(&vmi, &HostFacts::default()).unwrap();
    let xml = "<domain>\n  <vcpu placement='static'>2</vcpu>\n  <cputune>\n    <shares>7</shares>\n    \
        <vcpupin vcpu='0' cpuset='1'/>\n    <vcpupin vcpu='1' cpuset='2'/>\n  </cputune>\n  <devices/>\n</domain>\n";
    let edits = TargetEdits {
        cpu_placement,
        ..TargetEdits::default()
    };
    let expected = xml
        .replace("cpuset='1'/>", "cpuset=\"4\"></vcpupin>")
        .replace("cpuset='2'/>", "cpuset=\"5\"></vcpupin>")
        .replace("vcpu='0'", "vcpu=\"0\"")
        .replace("vcpu='1'", "vcpu=\"1\"");
    assert_eq!(edit_xml(xml, &vmi, &edits), expected);
}

#[test]
fn missing_topology_and_too_few_cpus_on_the_target_are_errors() {
    let without_dedicated_cpus = vmi(json!({}), json!({"migrationState": {}}));
    assert!(
        TargetCpuPlacement::of(&without_dedicated_cpus, &HostFacts::default())
            .unwrap()
            .is_none()
    );
    let placement_error = |state| {
        TargetCpuPlacement::of(&dedicated_cpus(state), &HostFacts::default())
            .unwrap_err()
            .to_string()
    };
    let no_topology = placement_error(json!({"targetCPUSet": [4, 5]}));
    assert!(no_topology.contains("targetNodeTopology"), "{no_topology}");
    let topology = r#"{"numa_cells": [{"id": 0, "cpus": [{"id": 4, "siblings": [4]}]}]}"#;
    let too_few = placement_error(json!({"targetCPUSet": [4], "targetNodeTopology": topology}));
    assert!(
        too_few.starts_with("the VM's dedicated processors cannot be placed"),
        "{too_few}"
    );
}

proptest! {
    /// An edit for a migration within one cluster changes nothing, for any paths and elements.
    #[test]
    fn xml_of_a_plain_migration_is_unchanged(file in "/[a-z/]{0,30}", extra in "[a-z]{1,8}", value in "[^<&'\\p{Cc}]{0,20}") {
        let xml = format!("<domain><devices><disk type='file'><source file='{file}' {extra}x='{value}'/><!-- {extra} -->\
            <alias name='ua-a'/></disk><{extra}y  z = \"1\" /></devices></domain>");
        let vmi = vmi(volumes(), json!({"migrationState": {}}));
        let edits = TargetEdits { rewrites_disk_paths: true, ..TargetEdits::default() };
        prop_assert_eq!(edit_xml(&xml, &vmi, &edits), xml);
    }
}
