//! Options that virt-handler sends, and the error of an invalid VMI.

use super::*;

#[test]
fn plugins_are_decoded_beside_unknown_options() {
    let read = |json: &str| {
        plugins(Some(&wire::VirtualMachineOptions {
            plugins_json: json.as_bytes().to_vec(),
            ..Default::default()
        }))
    };
    assert!(plugins(None).unwrap().is_empty());
    assert!(read("null").unwrap().is_empty());
    let plugin =
        r#"[{"metadata":{"name":"numa"},"spec":{"domainHooks":[{"cel":{"expression":"x"}}]}}]"#;
    assert!(!read(plugin).unwrap().is_empty());
    let error = read("{").unwrap_err().to_string();
    assert!(
        error.starts_with("failed to deserialize plugins from options: "),
        "{error}"
    );
}

#[test]
fn all_options_are_decoded() {
    let options = options(Some(wire::VirtualMachineOptions {
        virtual_machine_sm_bios: Some(wire::SmBios {
            family: "KubeVirt".into(),
            ..Default::default()
        }),
        mem_balloon_stats_period: 10,
        cluster_config: Some(wire::ClusterConfig {
            pcinuma_aware_topology_enabled: true,
            ..Default::default()
        }),
        topology: Some(wire::Topology {
            numa_cells: vec![wire::Cell {
                id: 1,
                ..Default::default()
            }],
        }),
        ..Default::default()
    }))
    .unwrap();
    assert_eq!(options.smbios.unwrap().family, "KubeVirt");
    assert_eq!(options.mem_balloon_stats_period, 10);
    assert!(
        options
            .cluster_config
            .unwrap()
            .pci_numa_aware_topology_enabled
    );
    assert_eq!(options.topology.unwrap().numa_cells[0].id, 1);
}

#[test]
fn invalid_vmi_gives_kubevirts_message() {
    for json in ["", "{", "[]", r#"{"metadata":{}}"#] {
        let error = vmi(Some(&wire::Vmi {
            vmi_json: json.as_bytes().to_vec(),
        }))
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "No valid vmi object present in command server request"
        );
    }
}
