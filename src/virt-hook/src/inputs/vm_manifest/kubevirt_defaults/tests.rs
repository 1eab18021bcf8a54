//! KubeVirt's defaults for disks, memory, networks and devices are set where a field is absent.

use serde_json::{Value, json};

use super::*;

fn with_defaults(spec: Value) -> (Value, Vec<&'static str>) {
    let Value::Object(mut spec) = spec else {
        panic!("{spec}")
    };
    let names = set_in_vmi(&mut spec, &mut Object::new(), "ns/web", "amd64");
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
            {"name": "seed", "cdrom": {"bus": "sata", "readonly": true, "tray": "closed"}},
            {"name": "data", "disk": {"bus": "scsi"}},
            {"name": "more", "disk": {"bus": "sata"}},
        ])
    );
    assert_eq!(names, ["disks of volumes", "disk targets", "disk buses"]);
    assert!(spec.get("networks").is_none());
    assert_eq!(
        spec["domain"]["cpu"],
        json!({"cores": 2, "model": "host-model"})
    );
}

#[test]
fn memory_and_sockets_come_from_the_resources_of_the_pod() {
    let resources =
        json!({"requests": {"memory": "2Gi", "cpu": "500m"}, "limits": {"cpu": "3500m"}});
    let (spec, names) = with_defaults(json!({"domain": {"resources": resources}}));
    let memory = json!({"guest": "2Gi", "maxGuest": "8Gi"});
    assert_eq!(spec["domain"]["memory"], memory);
    let cpu =
        json!({"sockets": 4, "cores": 1, "threads": 1, "maxSockets": 16, "model": "host-model"});
    assert_eq!(spec["domain"]["cpu"], cpu);
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
    let devices_and_features = |watchdog: Value, spinlocks: Value| {
        let (spec, names) = with_defaults(json!({"domain": {
            "devices": {"autoattachPodInterface": false, "watchdog": watchdog},
            "features": {"hyperv": {"spinlocks": spinlocks}},
        }}));
        let domain = &spec["domain"];
        let (watchdog, features) = (&domain["devices"]["watchdog"], &domain["features"]);
        (
            watchdog.clone(),
            features["hyperv"]["spinlocks"].clone(),
            names,
        )
    };
    let reset = json!({"name": "w", "i6300esb": {"action": "reset"}});
    for watchdog in [json!({"name": "w"}), json!({"name": "w", "i6300esb": {}})] {
        let (watchdog, spinlocks, names) = devices_and_features(watchdog, json!({}));
        assert_eq!(watchdog, reset);
        assert_eq!(spinlocks, json!({"enabled": true, "spinlocks": 4096}));
        assert_eq!(names, ["the watchdog's action"]);
    }
    let poweroff = json!({"name": "w", "i6300esb": {"action": "poweroff"}});
    for given in [
        json!({"enabled": false}),
        json!({"enabled": true, "spinlocks": 8191}),
    ] {
        let (watchdog, spinlocks, names) = devices_and_features(poweroff.clone(), given.clone());
        assert_eq!(
            (watchdog, spinlocks, names),
            (poweroff.clone(), given, Vec::new())
        );
    }
}

/// KubeVirt's maxima: four times as many sockets and as much memory, within what guests take.
#[test]
fn hotplug_has_maxima_where_a_vmi_allows_it() {
    let maxima = |domain: Value, architecture: &str| {
        let (spec, _) = with_defaults(json!({"architecture": architecture, "domain": domain}));
        let domain = &spec["domain"];
        (
            domain["cpu"]["maxSockets"].clone(),
            domain["memory"]["maxGuest"].clone(),
        )
    };
    let memory = |guest: &str| json!({"memory": {"guest": guest}});
    for (domain, architecture, sockets, guest) in [
        (memory("1Gi"), "amd64", json!(4), json!("4Gi")),
        (memory("1536Mi"), "amd64", json!(4), json!("6Gi")),
        (memory("512Mi"), "amd64", json!(4), Value::Null),
        (memory("2G"), "amd64", json!(4), Value::Null),
        (memory("1Gi"), "s390x", json!(4), Value::Null),
        (memory("1Gi"), "arm64", Value::Null, Value::Null),
        (
            json!({"memory": {"guest": "1Gi", "maxGuest": "2Gi"}, "cpu": {"sockets": 2, "maxSockets": 3}}),
            "amd64",
            json!(3),
            json!("2Gi"),
        ),
        (
            json!({"memory": {"guest": "1536Mi", "hugepages": {"pageSize": "1Gi"}}, "launchSecurity": {}}),
            "amd64",
            json!(4),
            Value::Null,
        ),
        (
            json!({"cpu": {"sockets": 8, "cores": 16, "threads": 2}}),
            "amd64",
            json!(16),
            Value::Null,
        ),
        (
            json!({"cpu": {"sockets": 100, "cores": 8, "threads": 1}}),
            "amd64",
            json!(100),
            Value::Null,
        ),
        (
            json!({"cpu": {"cores": 2}}),
            "amd64",
            Value::Null,
            Value::Null,
        ),
    ] {
        assert_eq!(
            maxima(domain.clone(), architecture),
            (sockets, guest),
            "{domain} {architecture}"
        );
    }
}

#[test]
fn architectures_have_defaults_of_their_own() {
    let spec = |architecture: &str| {
        let disks = json!({"disks": [{"name": "a"}], "watchdog": {"name": "w"}});
        with_defaults(json!({"architecture": architecture, "domain": {"devices": disks}})).0
    };
    let arm64 = &spec("arm64")["domain"];
    assert_eq!(arm64["cpu"]["model"], "host-passthrough");
    assert_eq!(arm64["machine"]["type"], "virt");
    assert_eq!(
        arm64["firmware"]["bootloader"],
        json!({"efi": {"secureBoot": false}})
    );
    assert_eq!(arm64["devices"]["watchdog"], json!({"name": "w"}));
    let s390x = &spec("s390x")["domain"];
    assert_eq!(s390x["machine"]["type"], "s390-ccw-virtio");
    assert_eq!(s390x["features"]["acpi"], json!({"enabled": false}));
    assert_eq!(
        s390x["devices"]["watchdog"]["diag288"],
        json!({"action": "reset"})
    );
    for domain in [arm64, s390x] {
        assert_eq!(domain["devices"]["disks"][0]["disk"]["bus"], "virtio");
    }
    let without = with_defaults(json!({"domain": {}})).0;
    assert_eq!(
        (
            &without["architecture"],
            &without["domain"]["machine"]["type"]
        ),
        (&json!("amd64"), &json!("q35"))
    );
}

#[test]
fn probes_images_and_timers_are_completed() {
    let (spec, _) = with_defaults(json!({
        "domain": {
            "clock": {"timer": {"hpet": {"present": false}, "rtc": {"tickPolicy": "catchup"}}},
            "resources": {"limits": {"cpu": "2"}},
        },
        "livenessProbe": {"periodSeconds": 5, "tcpSocket": {}},
        "volumes": [
            {"name": "a", "containerDisk": {"image": "r/a:latest"}},
            {"name": "b", "containerDisk": {"image": "r/b:1"}},
            {"name": "c", "containerDisk": {"image": "c"}},
        ],
    }));
    let timers =
        json!({"hpet": {"present": false}, "rtc": {"tickPolicy": "catchup", "present": true}});
    assert_eq!(spec["domain"]["clock"]["timer"], timers);
    assert_eq!(spec["domain"]["resources"]["requests"]["cpu"], "2");
    let probe = json!({"periodSeconds": 5, "tcpSocket": {}, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3});
    assert_eq!(spec["livenessProbe"], probe);
    let policy = |volume: usize| &spec["volumes"][volume]["containerDisk"]["imagePullPolicy"];
    assert_eq!(
        [policy(0), policy(1), policy(2)],
        ["Always", "IfNotPresent", "Always"]
    );
    assert_eq!(spec["evictionStrategy"], "None");
}

#[test]
fn values_of_a_wrong_type_are_left_alone() {
    for spec in [
        json!({"domain": 7}),
        json!({"domain": {"devices": [], "cpu": "two", "memory": 1, "features": "all"}, "volumes": 7, "networks": 7}),
        json!({"domain": {"cpu": {"cores": 1}, "devices": {"disks": "a", "interfaces": 1, "inputs": 1, "gpus": {}}, "features": 7},
            "volumes": 7}),
    ] {
        let (complete, _) = with_defaults(spec.clone());
        for (path, value) in leaves(&spec, String::new()) {
            assert_eq!(complete.pointer(&path), Some(&value), "{path}");
        }
    }
}

/// The values at the ends of all paths.
fn leaves(value: &Value, path: String) -> Vec<(String, Value)> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, field)| leaves(field, format!("{path}/{name}")))
            .collect(),
        other => vec![(path, other.clone())],
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
    assert_eq!(domain["features"], json!({"acpi": {"enabled": true}}));
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

#[test]
fn a_trust_domain_gets_quotes_from_the_service_of_its_node() {
    for (security, expected) in [
        (json!({"tdx": {}}), json!("/var/run/tdx-qgs/qgs.socket")),
        (json!({"tdx": null}), Value::Null),
        (json!({"snp": {}}), Value::Null),
    ] {
        let spec = json!({"domain": {"devices": {}, "launchSecurity": security}});
        let Value::Object(mut spec) = spec else {
            panic!("{spec}")
        };
        let mut metadata = Object::new();
        set_in_vmi(&mut spec, &mut metadata, "ns/web", "amd64");
        assert_eq!(
            metadata["annotations"]["kubevirt.io/qgs-socket-path"],
            expected
        );
    }
}

fn firmware_of(spec: Value, is_of_vm: bool) -> Value {
    let Value::Object(mut spec) = spec else {
        panic!("it is an object")
    };
    set_firmware(&mut spec, "ns/web", is_of_vm);
    spec["domain"]["firmware"].clone()
}

#[test]
fn a_vm_has_a_firmware_uuid_and_a_serial_number() {
    let firmware = firmware_of(json!({"domain": {}}), true);
    let text = |field: &str| firmware[field].as_str().unwrap_or_default().to_owned();
    for field in ["uuid", "serial"] {
        let lengths: Vec<usize> = text(field).split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{firmware}");
    }
    assert_ne!(text("uuid"), text("serial"));
    let of_vmi = firmware_of(json!({"domain": {}}), false);
    assert_eq!(of_vmi, json!({"uuid": text("uuid")}));
    let own = json!({"uuid": "u", "serial": "s"});
    assert_eq!(firmware_of(json!({"domain": {"firmware": own}}), true), own);
}
