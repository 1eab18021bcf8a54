//! Tests of decoding the guest agent's answers.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::guest_agent::guest_info_cache::FreezeStatus;

/// The answer of the agent in a guest of KubeVirt.
const INTERFACES: &str = r#"{"return":[{"name":"lo","ip-addresses":[{"ip-address-type":"ipv4","ip-address":"127.0.0.1","prefix":8}],"hardware-address":"00:00:00:00:00:00"},{"name":"eth0","ip-addresses":[{"ip-address-type":"ipv6","ip-address":"fec0::ff:fe00:1","prefix":64},{"ip-address-type":"ipv6","ip-address":"fe80::ff:fe00:1","prefix":64}],"statistics":{"tx-packets":7},"hardware-address":"02:00:00:00:00:01"}]}"#;

#[test]
fn recorded_interfaces_are_decoded_without_loopback() {
    let list = interfaces(INTERFACES).unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].mac, "02:00:00:00:00:01");
    assert_eq!(list[0].ip, "fec0::ff:fe00:1");
    assert_eq!(list[0].ips, ["fec0::ff:fe00:1", "fe80::ff:fe00:1"]);
    assert_eq!(list[0].interface_name, "eth0");
}

#[test]
fn first_ipv4_address_is_preferred_and_aliases_are_merged() {
    let address = |kind: &str, ip: &str| json!({"ip-address-type": kind, "ip-address": ip});
    let answer = json!({"return": [
        {"name": "eth0", "hardware-address": "02:00:00:00:00:01",
            "ip-addresses": [address("ipv6", "fe80::1"), address("ipv4", "10.0.0.2"), address("ipv4", "10.0.0.3")]},
        {"name": "eth0:1", "hardware-address": "02:00:00:00:00:01", "ip-addresses": [address("ipv4", "10.0.0.4")]},
        {"name": "dummy0"},
    ]});
    let list = interfaces(&answer.to_string()).unwrap();
    assert_eq!(list[0].ip, "10.0.0.2");
    assert_eq!(list[0].ips, ["fe80::1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    assert_eq!(
        (list[1].interface_name.as_str(), list[1].ip.as_str()),
        ("dummy0", "")
    );
}

#[test]
fn unusual_values_of_other_agents_are_decoded() {
    assert_eq!(
        freeze_status(r#"{"return":"frozen"}"#),
        Ok(FreezeStatus::Frozen)
    );
    assert!(freeze_status(r#"{"return":"<b>"}"#).is_err());
    assert_eq!(
        hostname(r#"{"return":{"host-name":"a\u0000b"}}"#).unwrap(),
        "a\u{fffd}b"
    );
    let zone = timezone(r#"{"return":{"zone":"CEST","offset":7200}}"#).unwrap();
    assert_eq!((zone.zone.as_str(), zone.offset), ("CEST", 7200));
    let huge = timezone(r#"{"return":{"offset":1e300}}"#).unwrap();
    assert_eq!((huge.zone.as_str(), huge.offset), ("", 0));
    let list = users(
        r#"{"return":[{"user":"a","login-time":1795265967.1239},{"user":"b","login-time":-1}]}"#,
    );
    let times: Vec<f64> = list.unwrap().iter().map(|user| user.login_time).collect();
    assert_eq!(times, [1_795_265_967.123, 0.0]);
    let list = filesystems(
        r#"{"return":[{"name":"C:","mountpoint":null,"type":"NTFS","total-bytes":18446744073709551615,"used-bytes":3}]}"#,
    );
    let list = list.unwrap();
    assert_eq!((list[0].total_bytes, list[0].used_bytes), (i64::MAX, 3));
    assert_eq!(
        load(r#"{"return":{"load1m":0.5,"load5m":1,"load15m":2}}"#)
            .unwrap()
            .five,
        Some(1.0)
    );
    assert_eq!(
        os_info(r#"{"return":{"id":"mswindows","version":null}}"#)
            .unwrap()
            .id,
        "mswindows"
    );
}

#[test]
fn oversized_answer_is_an_error_before_it_is_parsed() {
    let flood = format!(r#"{{"return":"{}"}}"#, "x".repeat(MAX_ANSWER_BYTES));
    assert_eq!(
        hostname(&flood),
        Err(AnswerError::Size { bytes: flood.len() })
    );
}

#[test]
fn counts_and_lengths_are_bounded() {
    let long = "x".repeat(100_000);
    let answer = json!({"return": {"version": long, "supported_commands":
        vec![json!({"name": "guest-ping", "enabled": true}); 5000]}});
    let agent = agent_version(&answer.to_string()).unwrap();
    assert_eq!((agent.version.len(), agent.commands.len()), (256, 512));
    let address = json!({"ip-address": "10.0.0.1", "ip-address-type": "ipv4"});
    let many = vec![address; 500];
    let answer = json!({"return": (0..9).map(|n| json!({"name": format!("eth{}:{n}", n % 2), "ip-addresses": many}))
        .collect::<Vec<_>>()});
    let list = interfaces(&answer.to_string()).unwrap();
    assert_eq!(
        list.iter()
            .map(|interface| interface.ips.len())
            .collect::<Vec<_>>(),
        [64, 64]
    );
}

#[test]
fn deep_nesting_is_an_error() {
    let depth = 100_000;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = format!("{}0{}", open.repeat(depth), close.repeat(depth));
        // Once in the place of a value, once in a field that is not decoded.
        let _ = users(&format!(r#"{{"return":{nested}}}"#));
        let _ = users(&format!(r#"{{"return":[{{"user":"a","more":{nested}}}]}}"#));
        assert!(hostname(&format!(r#"{{"return":{{"host-name":{nested}}}}}"#)).is_err());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let keys = prop_oneof![
        Just("name"),
        Just("user"),
        Just("login-time"),
        Just("ip-addresses"),
        Just("ip-address"),
        Just("hardware-address"),
        Just("mountpoint"),
        Just("disk"),
        Just("version"),
        Just("offset"),
        Just("supported_commands"),
        Just("host-name"),
        Just("total-bytes"),
        Just("load1m"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        ".{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|fields| {
                fields
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            }),
        ]
    })
}

/// Decodes the answer as the answer to each command, and returns the decoded texts.
fn decode_as_every_command(answer: &str) -> Vec<String> {
    let mut texts = Vec::new();
    if let Ok(agent) = agent_version(answer) {
        texts.extend(agent.commands.into_iter().map(|command| command.name));
        texts.push(agent.version);
    }
    for interface in interfaces(answer).unwrap_or_default() {
        texts.extend([interface.mac, interface.ip, interface.interface_name]);
        texts.extend(interface.ips);
    }
    texts.extend(hostname(answer));
    texts.extend(timezone(answer).map(|zone| zone.zone));
    texts.extend(
        users(answer)
            .unwrap_or_default()
            .into_iter()
            .map(|user| user.name),
    );
    texts.extend(
        filesystems(answer)
            .unwrap_or_default()
            .into_iter()
            .map(|filesystem| filesystem.mount_point),
    );
    texts.extend(os_info(answer).map(|os| os.name));
    let _ = (load(answer), freeze_status(answer));
    texts
}

proptest! {
    #[test]
    fn any_answer_is_decoded_within_the_limits_or_an_error(value in any_json()) {
        for text in decode_as_every_command(&json!({"return": value}).to_string()) {
            prop_assert!(text.chars().count() <= 4096);
            prop_assert!(!text.chars().any(char::is_control));
        }
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        decode_as_every_command(&String::from_utf8_lossy(&bytes));
    }
}
