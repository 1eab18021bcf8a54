//! Tests of KubeVirt's statistics JSON, against a recorded answer of KubeVirt's launcher.

use super::*;

fn json(stats: &DomainStats, aliases: &DeviceAliases) -> Value {
    domain_stats(
        stats,
        aliases,
        &Load::default(),
        &MigrationProgress::default(),
    )
}

/// The recorded answer of KubeVirt's launcher for a VM with two disks, an interface without statistics, and one of four
/// vCPUs plugged.
#[test]
fn statistics_match_the_recorded_answer() {
    let calls = include_str!("../../../../tests/corpus/launcher-calls/02-answers.calls.json");
    let calls: Vec<Value> = serde_json::from_str(calls).unwrap();
    let mut calls = calls.iter();
    let recorded = calls.find(|call| call["method"] == "getdomainstats");
    let recorded = &recorded.unwrap()["result"]["V"];
    let aliases = "<domain><devices><disk><target dev='vda'/><alias name='ua-empty'/></disk>\
        <disk><target dev='vdb'/><alias name='ua-ci'/></disk></devices></domain>";
    let aliases = DeviceAliases::from_xml(aliases);
    assert_eq!(json(&recorded_stats(), &aliases), *recorded);
}

fn recorded_stats() -> DomainStats {
    let unplugged = VcpuStats {
        state: Some(0),
        ..VcpuStats::default()
    };
    let plugged = VcpuStats {
        state: Some(1),
        time: Some(3_580_000_000),
        wait: Some(0),
        delay: Some(34_112_275),
    };
    DomainStats {
        name: "default_vm1".into(),
        uuid: "c5f0a5bc-1322-45b2-9526-5886dc7e2740".into(),
        cpu: CpuStats {
            time: Some(4_290_000_000),
            user: Some(3_540_000_000),
            system: Some(750_000_000),
        },
        memory: MemoryStats {
            unused: Some(165_168),
            cached: Some(11_756),
            available: Some(221_840),
            actual_balloon: Some(262_144),
            rss: Some(281_968),
            swap_in: Some(0),
            swap_out: Some(0),
            major_faults: Some(0),
            minor_faults: Some(3986),
            usable: Some(169_352),
            total: Some(262_144),
        },
        vcpus: vec![plugged, unplugged, unplugged, unplugged],
        nets: vec![NetStats::default()],
        blocks: vec![recorded_empty_disk(), recorded_cloud_init_disk()],
        cpu_map: Some(vec![vec![true, true]]),
        dirty_rate: DirtyRateStats {
            status: Some(0),
            start: Some(0),
            period: Some(0),
            mib_per_second: None,
        },
    }
}

/// Statistics of this many requests.
fn requests(requests: u64, bytes: Option<u64>, nanoseconds: u64) -> RequestStats {
    RequestStats {
        requests: Some(requests),
        bytes,
        nanoseconds: Some(nanoseconds),
    }
}

fn recorded_empty_disk() -> BlockStats {
    BlockStats {
        name: Some("vda".into()),
        backing_index: Some(2),
        path: Some("/var/run/libvirt/empty-disks/empty.qcow2".into()),
        reads: requests(11, Some(13_824), 4_143_026),
        writes: requests(1, Some(1024), 203_273),
        flushes: requests(1, None, 1_157_889),
        errors: None,
        allocation: Some(329_728),
        capacity: Some(67_108_864),
        physical: Some(987_136),
    }
}

fn recorded_cloud_init_disk() -> BlockStats {
    let path = "/var/run/kubevirt-ephemeral-disks/cloud-init-data/default/vm1/noCloud.iso";
    BlockStats {
        name: Some("vdb".into()),
        backing_index: Some(1),
        path: Some(path.into()),
        reads: requests(1, Some(4096), 182_272),
        writes: requests(0, Some(0), 0),
        flushes: requests(0, None, 0),
        errors: None,
        allocation: Some(0),
        capacity: Some(1_048_576),
        physical: Some(1_048_576),
    }
}

#[test]
fn disks_and_interfaces_have_their_aliases() {
    let xml = "<domain><devices>\
        <interface><target dev='tap0'/><alias name='ua-default'/></interface>\
        <disk><target dev='vda'/><alias name='virtio-disk0'/></disk>\
        <disk><target dev='vdb'/></disk><disk/>\
        </devices></domain>";
    let aliases = DeviceAliases::from_xml(xml);
    let stats = DomainStats {
        nets: vec![NetStats {
            name: Some("tap0".into()),
            ..NetStats::default()
        }],
        blocks: ["vda", "vdb"]
            .map(|name| BlockStats {
                name: Some(name.into()),
                ..BlockStats::default()
            })
            .into(),
        ..DomainStats::default()
    };
    let json = json(&stats, &aliases);
    assert_eq!(json["Net"][0]["AliasSet"], true);
    assert_eq!(json["Net"][0]["Alias"], "default");
    assert_eq!(json["Net"][0]["RxBytesSet"], false);
    assert_eq!(json["Block"][0]["Alias"], "virtio-disk0");
    assert_eq!(json["Block"][1]["Alias"], "");
    assert_eq!(json["Block"][0].get("AliasSet"), None);
    assert_eq!(json["Block"][0]["FlTimes"], 0);
    assert_eq!(json["Block"][0].get("FlBytes"), None);
    assert_eq!(DeviceAliases::from_xml("<domain"), DeviceAliases::default());
}

#[test]
fn absent_value_is_zero_and_not_set() {
    let json = json(&DomainStats::default(), &DeviceAliases::default());
    assert_eq!(json["Load"]["Load15mSet"], false);
    assert_eq!(json["DirtyRate"]["CalcStatusSet"], false);
    assert_eq!(json["CPUMapSet"], false);
    assert!(json["CPUMap"].is_null());
    assert_eq!(json["Vcpu"], Value::Array(vec![]));
}
