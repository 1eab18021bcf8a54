//! Tap devices (names, addresses, the domain's interfaces on them), DHCP leases and DHCP options.

use domain::pod_network_and_dhcp::{Binding, Lease, Link, Mac, Tap, taps};
use serde_json::{Value, json};

use super::Case;

/// A case with these interfaces. The network of a name that starts with `pod` is the pod's network, all others are
/// networks of Multus.
fn case(interfaces: Value) -> Case {
    let names = interfaces.as_array().unwrap().iter().map(|interface| {
        let name = interface["name"].as_str().unwrap();
        match name.starts_with("pod") {
            true => json!({"name": name, "pod": {"vmNetworkCIDR": "10.11.0.0/16"}}),
            false => {
                json!({"name": name, "multus": {"networkName": "n", "default": name == "default"}})
            }
        }
    });
    let networks: Vec<_> = names.collect();
    Case::of(json!({"domain": {"devices": {"interfaces": interfaces}}, "networks": networks}))
}

fn tap_devices(case: &Case) -> Vec<Tap> {
    let (vmi, options, _) = case.inputs();
    taps(&vmi, &options).unwrap()
}

fn tap_error(interface: Value) -> String {
    let (vmi, options, _) = case(json!([interface])).inputs();
    taps(&vmi, &options).unwrap_err().to_string()
}

#[test]
fn each_network_has_its_own_links() {
    let devices = tap_devices(&case(json!([
        {"name": "pod", "masquerade": {}},
        {"name": "gone", "bridge": {}, "state": "absent"},
        {"name": "vf", "sriov": {}},
        {"name": "red", "bridge": {}},
    ])));
    let [pod, red] = devices.as_slice() else {
        panic!("{devices:?}")
    };
    assert_eq!(pod.pod_interfaces, ["eth0"]);
    assert_eq!(
        (pod.device("eth0"), pod.bridge("eth0")),
        ("tap0".into(), "k6t-eth0".into())
    );
    assert_eq!(red.pod_interfaces, ["podb1f51a511f1", "net3"]);
    assert_eq!(
        (
            red.device("net3"),
            red.bridge("net3"),
            red.renamed_interface("net3")
        ),
        ("tap3".into(), "k6t-net3".into(), "net3-nic".into())
    );
    // The last octet contains the index among all interfaces, also absent and SR-IOV ones, as in virt-handler.
    assert_eq!(red.binding, Binding::Bridge([169, 254, 75, 13].into()));
}

#[test]
fn primary_interface_name_comes_from_the_status() {
    let with_status = case(json!([{"name": "default", "bridge": {}}]))
        .status(json!({"interfaces": [{"name": "default", "podInterfaceName": "ovn-udn1"}]}));
    let devices = tap_devices(&with_status);
    assert_eq!(devices[0].pod_interfaces, ["ovn-udn1", "eth0"]);
    assert_eq!(devices[0].device("ovn-udn1"), "tap0");
}

#[test]
fn binding_plugin_has_a_tap_only_if_virt_handler_says_so() {
    let plugin = || case(json!([{"name": "pod", "binding": {"name": "b"}}]));
    assert_eq!(tap_devices(&plugin()), []);
    let attached = plugin().options(json!({"interfaceDomainAttachment": {"pod": "tap"}}));
    assert_eq!(tap_devices(&attached)[0].binding, Binding::Plugin);
}

#[test]
fn masquerade_lease_has_the_ip_versions_of_the_pod() {
    let taps = tap_devices(&case(json!([{"name": "pod", "masquerade": {}}])));
    let Binding::Masquerade(subnets) = &taps[0].binding else {
        panic!("{taps:?}")
    };
    let lease = Lease::masquerade(subnets, true, false);
    let v4 = lease.v4.unwrap();
    assert_eq!(v4.address.to_string(), "10.11.0.2/16");
    assert_eq!(
        [v4.server.to_string(), v4.router.unwrap().to_string()],
        ["10.11.0.1", "10.11.0.1"]
    );
    assert_eq!((v4.client, lease.v6), (None, None));
    let v6 = Lease::masquerade(subnets, false, true);
    assert_eq!(
        (v6.v4, v6.v6.unwrap().to_string()),
        (None, "fd10:0:2::2".into())
    );
}

#[test]
fn domain_interface_is_attached_to_the_tap() {
    let pod = Link {
        name: "eth0".into(),
        mac: Mac::parse("02:00:00:00:00:09"),
        mtu: 1450,
    };
    let case = case(json!([
        {"name": "pod-own", "masquerade": {}},
        {"name": "named", "bridge": {}, "macAddress": "DE-AD-00-00-BE-AF"},
    ]));
    let mut spec = case.domain_spec();
    let taps = tap_devices(&case);
    for tap in &taps {
        tap.attach(&mut spec, &pod, &format!("tap-{}", tap.interface))
            .unwrap();
    }
    let interfaces = spec.devices.interfaces.iter().map(|interface| {
        let target = interface.target.clone().unwrap();
        assert_eq!(
            (
                target.managed.as_str(),
                interface.mtu.clone().unwrap().size.as_str()
            ),
            ("no", "1450")
        );
        (target.device, interface.mac.clone().unwrap().mac)
    });
    assert_eq!(
        interfaces.collect::<Vec<_>>(),
        [
            ("tap-pod-own".into(), "02:00:00:00:00:09".into()),
            ("tap-named".into(), "de:ad:00:00:be:af".into()),
        ]
    );
    let nameless = Link { mac: None, ..pod };
    assert_eq!(
        taps[0]
            .attach(&mut spec, &nameless, "tap0")
            .unwrap_err()
            .to_string(),
        "interface pod-own: eth0, its link in the pod, has no Ethernet address; macAddress can say one"
    );
}

#[test]
fn unsupported_networks_and_values_are_errors() {
    let masquerade =
        |options: Value| json!({"name": "pod", "masquerade": {}, "dhcpOptions": options});
    assert_eq!(
        tap_error(masquerade(
            json!({"ntpServers": ["10.0.0.1", "pool.ntp.org"]})
        )),
        "interface pod: dhcpOptions.ntpServers is \"pool.ntp.org\"; it can be IPv4 addresses"
    );
    assert_eq!(
        tap_error(masquerade(
            json!({"privateOptions": [{"option": 480, "value": "v"}]})
        )),
        "interface pod: dhcpOptions.privateOptions.option is \"480\"; it can be 224 to 254"
    );
    assert_eq!(
        tap_error(json!({"name": "pod", "masquerade": {}, "macAddress": "x"})),
        "interface pod: macAddress is \"x\"; it can be an Ethernet address such as 02:00:00:00:00:01"
    );
    let claimed = Case::of(json!({
        "domain": {"devices": {"interfaces": [{"name": "c", "bridge": {}}]}},
        "networks": [{"name": "c", "resourceClaim": {"claimName": "c", "requestName": "r"}}],
    }));
    let (vmi, options, _) = claimed.inputs();
    let error = taps(&vmi, &options).unwrap_err().to_string();
    assert!(
        error.starts_with("interface c: could not find the pod interface"),
        "{error}"
    );
}
