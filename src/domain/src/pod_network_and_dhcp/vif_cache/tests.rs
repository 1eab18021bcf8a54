//! Leases from a recorded file of virt-handler, and errors of invalid fields.

use serde_json::{Value, json};

use super::*;

/// The file as virt-handler 1.9.0 writes it, without those fields of routes that are always zero.
fn recorded() -> Value {
    let none = json!({
        "Label": "", "Flags": 0, "Scope": 0, "Peer": null, "Broadcast": "", "PreferedLft": 0, "ValidLft": 0,
        "LinkIndex": 0
    });
    let mut ip = none.clone();
    ip["IP"] = "10.244.1.7".into();
    ip["Mask"] = "////AA==".into();
    json!({
        "Name": "", "IP": ip, "IPv6": none, "MAC": "AgAAq83v", "AdvertisingIPAddr": "", "AdvertisingIPv6Addr": "",
        "Routes": [
            {"LinkIndex": 0, "Dst": null, "Src": "", "Gw": "10.244.1.1", "MultiPath": null, "Via": null},
            {"LinkIndex": 0, "Dst": {"IP": "10.96.0.0", "Mask": "//AAAA=="}, "Src": "", "Gw": "10.244.1.2"},
            {"LinkIndex": 0, "Dst": {"IP": "10.1.0.0", "Mask": "//8AAA=="}, "Src": "", "Gw": ""}
        ],
        "Mtu": 0, "IPAMDisabled": false, "Gateway": "10.244.1.1", "Subdomain": ""
    })
}

fn lease(file: &Value) -> Result<Lease, String> {
    Lease::bridge(file.to_string().as_bytes(), Ipv4Addr::new(169, 254, 75, 10))
        .map_err(|error| error.to_string())
}

fn lease_with(field: &str, value: Value) -> Result<Lease, String> {
    let mut file = recorded();
    file[field] = value;
    lease(&file)
}

#[test]
fn bridge_lease_has_the_address_and_routes_of_the_pod() {
    let lease = lease(&recorded()).unwrap().v4.unwrap();
    assert_eq!(lease.client.unwrap().to_string(), "02:00:00:ab:cd:ef");
    assert_eq!(lease.address.to_string(), "10.244.1.7/24");
    assert_eq!(lease.server.to_string(), "169.254.75.10");
    assert_eq!(lease.router.unwrap().to_string(), "10.244.1.1");
    let routes = lease.routes.iter();
    let routes: Vec<_> = routes
        .map(|route| format!("{} {}", route.destination, route.gateway))
        .collect();
    assert_eq!(
        routes,
        [
            "10.96.0.0/12 10.244.1.2",
            "10.1.0.0/16 0.0.0.0",
            "0.0.0.0/0 10.244.1.1"
        ]
    );
}

#[test]
fn pods_without_an_address_give_no_lease() {
    assert_eq!(
        lease_with("IPAMDisabled", true.into()),
        Ok(Lease::default())
    );
    assert_eq!(lease_with("IP", json!({"Label": ""})), Ok(Lease::default()));
}

#[test]
fn optional_fields_can_be_missing() {
    let mut file = recorded();
    file["MAC"] = Value::Null;
    file["Routes"] = Value::Null;
    file["Gateway"] = "".into();
    let lease = lease(&file).unwrap().v4.unwrap();
    assert_eq!(
        (lease.client, lease.router, lease.routes),
        (None, None, vec![])
    );
    let unspecified_gateway = lease_with("Gateway", "0.0.0.0".into()).unwrap().v4.unwrap();
    assert_eq!(unspecified_gateway.router, None);
}

#[test]
fn errors_of_invalid_fields_name_the_field() {
    for (field, value, error) in [
        (
            "MAC",
            json!("AgAA"),
            "its field MAC is \"AgAA\", which is not an Ethernet address in base64",
        ),
        (
            "IP",
            json!({"IP": "fd10::1", "Mask": "////AA=="}),
            "its field IP is \"fd10::1 ////AA==\", which is not an IPv4 address with a mask in base64",
        ),
        (
            "IP",
            json!({"IP": "10.0.0.1", "Mask": "/wD/AA=="}),
            "its field IP is \"10.0.0.1 /wD/AA==\", which is not an IPv4 address with a mask in base64",
        ),
        (
            "Gateway",
            json!("x"),
            "its field Gateway is \"x\", which is not an IPv4 address",
        ),
        (
            "Routes",
            json!([{"Gw": "y"}]),
            "its field Routes.Gw is \"y\", which is not an IPv4 address",
        ),
    ] {
        assert_eq!(lease_with(field, value).unwrap_err(), error);
    }
    assert!(
        lease_with("Routes", 7.into())
            .unwrap_err()
            .starts_with("it is not virt-handler's JSON")
    );
    assert_eq!(
        Lease::bridge(&vec![b' '; MAX_VIF_CACHE_BYTES + 1], Ipv4Addr::LOCALHOST),
        Err(VifCacheError::TooLarge)
    );
}
