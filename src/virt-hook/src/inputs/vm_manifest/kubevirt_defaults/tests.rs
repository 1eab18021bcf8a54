//! KubeVirt's defaults for disks, memory, networks and devices are set where a field is absent.

use super::*;

fn with_defaults(spec: Value) -> (Value, Vec<&'static str>) {
    let Value::Object(mut spec) = spec else {
        panic!("{spec}")
    };
    let names = set(&mut spec, false);
    (spec.into(), names)
}

#[test]
fn every_volume_has_a_disk_with_a_target_and_a_bus() {
    let (spec, names) = with_defaults(json!({
        "domain": {
            "cpu": {"cores": 2},
            "memory": {"guest": "1Gi"},
            "devices": {
                "autoattachPodInterface": false,
                "filesystems": [{"name": "shared"}],
                "disks": [{"name": "root", "bootOrder": 1}, {"name": "seed", "cdrom": {}}, {"name": "data", "disk": {"bus": "scsi"}}],
            },
        },
        "volumes": [{"name": "root"}, {"name": "seed"}, {"name": "data"}, {"name": "shared"}, {"name": "more"}],
    }));
    assert_eq!(
        spec["domain"]["devices"]["disks"],
        json!([
            {"name": "root", "bootOrder": 1, "disk": {"bus": "sata"}},
            {"name": "seed", "cdrom": {"bus": "sata", "tray": "closed"}},
            {"name": "data", "disk": {"bus": "scsi"}},
            {"name": "more", "disk": {"bus": "sata"}},
        ])
    );
    assert_eq!(names, ["disks of volumes", "disk targets", "disk buses"]);
    assert!(spec.get("networks").is_none());
    assert_eq!(spec["domain"]["cpu"], json!({"cores": 2}));
}

#[test]
fn memory_and_sockets_come_from_the_resources_of_the_pod() {
    let resources =
        json!({"requests": {"memory": "2Gi", "cpu": "500m"}, "limits": {"cpu": "3500m"}});
    let (spec, names) = with_defaults(json!({"domain": {"resources": resources}}));
    assert_eq!(spec["domain"]["memory"], json!({"guest": "2Gi"}));
    let topology = json!({"sockets": 4, "cores": 1, "threads": 1});
    assert_eq!(spec["domain"]["cpu"], topology);
    assert_eq!(names[..2], ["guest memory", "CPU sockets"]);
    let (spec, _) =
        with_defaults(json!({"domain": {"memory": {"hugepages": {"pageSize": "2Mi"}}}}));
    assert_eq!(spec["domain"]["memory"]["guest"], "2Mi");
}

#[test]
fn a_vmi_without_networks_gets_the_pod_network() {
    let (spec, names) = with_defaults(json!({"domain": {}}));
    assert_eq!(spec["networks"], json!([{"name": "default", "pod": {}}]));
    let interfaces = &spec["domain"]["devices"]["interfaces"];
    assert_eq!(interfaces, &json!([{"name": "default", "bridge": {}}]));
    assert_eq!(names, ["the network interface"]);
    let (spec, _) =
        with_defaults(json!({"architecture": "arm64", "domain": {}, "volumes": [{"name": "a"}]}));
    assert_eq!(
        spec["domain"]["devices"]["disks"][0]["disk"]["bus"],
        "virtio"
    );
}

#[test]
fn watchdogs_and_spinlocks_are_completed() {
    let vmi = |watchdog: Value, spinlocks: Value| {
        json!({"domain": {"devices": {"autoattachPodInterface": false, "watchdog": watchdog},
            "cpu": {"cores": 1}, "features": {"hyperv": {"spinlocks": spinlocks}}}})
    };
    let reset = json!({"name": "w", "i6300esb": {"action": "reset"}});
    for watchdog in [json!({"name": "w"}), json!({"name": "w", "i6300esb": {}})] {
        let (spec, names) = with_defaults(vmi(watchdog, json!({})));
        assert_eq!(
            spec,
            vmi(reset.clone(), json!({"retries": 4096})),
            "{names:?}"
        );
        assert_eq!(names, ["the watchdog's action", "spinlock retries"]);
    }
    let poweroff = json!({"name": "w", "i6300esb": {"action": "poweroff"}});
    for spinlocks in [json!({"enabled": false}), json!({"retries": 8191})] {
        let complete = vmi(poweroff.clone(), spinlocks);
        assert_eq!(with_defaults(complete.clone()), (complete, Vec::new()));
    }
}

#[test]
fn values_of_a_wrong_type_are_left_alone() {
    for spec in [
        json!({"domain": 7}),
        json!({"domain": {"devices": [], "cpu": "two", "memory": 1, "features": "all"}, "volumes": 7, "networks": 7}),
        json!({"domain": {"cpu": {"cores": 1}, "devices": {"disks": "a", "interfaces": 1, "inputs": 1, "gpus": {}}, "features": 7},
            "volumes": [{"name": "a"}]}),
    ] {
        assert_eq!(with_defaults(spec.clone()).0, spec);
    }
}

#[test]
fn acpi_trays_inputs_and_displays_are_completed() {
    let (spec, names) = with_defaults(json!({"domain": {
        "cpu": {"cores": 1},
        "devices": {
            "autoattachPodInterface": false,
            "disks": [{"name": "a", "cdrom": {"bus": "scsi"}}, {"name": "b", "cdrom": {"bus": "scsi", "tray": "open"}}],
            "inputs": [{"name": "t"}, {"name": "v", "bus": "virtio", "type": "tablet"}],
            "gpus": [
                {"name": "g", "virtualGPUOptions": {"display": {"ramFB": {}}}},
                {"name": "h", "virtualGPUOptions": {"display": {"ramFB": {"enabled": false}}}},
                {"name": "i"},
            ],
        },
    }}));
    let domain = &spec["domain"];
    assert_eq!(domain["features"], json!({}));
    let devices = &domain["devices"];
    assert_eq!(devices["disks"][0]["cdrom"]["tray"], "closed");
    assert_eq!(devices["disks"][1]["cdrom"]["tray"], "open");
    assert_eq!(
        devices["inputs"],
        json!([{"name": "t", "bus": "usb", "type": "tablet"}, {"name": "v", "bus": "virtio", "type": "tablet"}])
    );
    let ram_fb = |gpu: usize| &devices["gpus"][gpu]["virtualGPUOptions"]["display"]["ramFB"];
    assert_eq!(
        [ram_fb(0), ram_fb(1), ram_fb(2)],
        [
            &json!({"enabled": true}),
            &json!({"enabled": false}),
            &Value::Null
        ]
    );
    assert_eq!(names, ["input devices"]);
}
