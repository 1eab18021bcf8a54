//! Conversion and parsing do not panic on any input.

#![allow(clippy::unwrap_used)]

mod generated_vmis;

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::OnceLock;

use domain::convert::convert;
use domain::domain_spec_from_xml::parse;
use domain::domain_spec_to_xml::render;
use domain::host_facts::HostFacts;
use domain::pod_network_and_dhcp::{DnsConfig, Lease};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The corpus' files with this ending.
fn corpus(directory: &str, ending: &str) -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/corpus")
        .join(directory);
    let mut paths: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    paths.retain(|path| path.to_str().unwrap().ends_with(ending));
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

fn vmis() -> &'static [Value] {
    static VMIS: OnceLock<Vec<Value>> = OnceLock::new();
    VMIS.get_or_init(|| {
        ["", "-arm64", "-s390x"]
            .iter()
            .flat_map(|of| corpus(&format!("vmi-to-domain-xml{of}"), ".vmi.json"))
            .map(|text| serde_json::from_str(&text).unwrap())
            .collect()
    })
}

fn domains() -> &'static [String] {
    static DOMAINS: OnceLock<Vec<String>> = OnceLock::new();
    DOMAINS.get_or_init(|| corpus("domain-xml-to-json", ".dumpxml.xml"))
}

/// A value that may have the wrong type, or an extreme value.
fn unexpected_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!({})),
        Just(json!([])),
        Just(json!([null])),
        Just(json!(-1)),
        Just(json!(u64::MAX)),
        Just(json!(1e300)),
        Just(json!("")),
        Just(json!("9999999999999999999Ei")),
        Just(json!("<&\"'\u{0}\r\n>")),
        "[ -~]{0,12}".prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
    ]
}

/// Replaces the node with this number in the tree, counted depth first, by the value.
fn replace_node(tree: &mut Value, number: &mut usize, value: &Value) {
    if *number == 0 {
        *tree = value.clone();
        *number = usize::MAX;
        return;
    }
    *number -= 1;
    match tree {
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace_node(field, number, value)),
        Value::Array(elements) => elements
            .iter_mut()
            .for_each(|element| replace_node(element, number, value)),
        _ => {}
    }
}

fn parse_and_convert(text: &[u8]) {
    let Ok(vmi) = Vmi::from_yaml_or_json(text) else {
        return;
    };
    let mut host = HostFacts::default();
    if !vmi.spec.architecture.is_empty() {
        host.architecture.clone_from(&vmi.spec.architecture);
    }
    let Ok(spec) = convert(&vmi, &Options::default(), &host) else {
        return;
    };
    parse(&render(&spec)).expect("rendered XML can be parsed");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn mutated_vmis_do_not_panic(
        vmi in prop::sample::select(vmis()),
        edits in prop::collection::vec((0_usize..200, unexpected_value()), 1..4),
    ) {
        let mut vmi = vmi;
        for (mut number, value) in edits {
            replace_node(&mut vmi, &mut number, &value);
        }
        parse_and_convert(vmi.to_string().as_bytes());
    }

    #[test]
    fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        parse_and_convert(&bytes);
        let _ = domain::resource_claims::device(&String::from_utf8_lossy(&bytes), "request");
    }

    #[test]
    fn mutated_domains_do_not_panic(
        xml in prop::sample::select(domains()),
        edits in prop::collection::vec((any::<prop::sample::Index>(), "[<>/='\"a-z0-9-]{0,3}"), 1..6),
    ) {
        let mut xml = xml;
        for (position, text) in edits {
            let position = position.index(xml.len());
            if xml.is_char_boundary(position) && xml.is_char_boundary(position + 1) {
                xml.replace_range(position..=position, &text);
            }
        }
        if let Ok(spec) = parse(&xml) {
            serde_json::to_vec(&spec).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn vif_caches_and_resolv_confs_do_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        ip in "[0-9.:a-f]{0,16}",
        base64 in "[A-Za-z0-9/+=]{0,12}",
        words in "(nameserver|search|[a-z0-9.:_-]{0,70}|[ \t\n]){0,40}",
    ) {
        let _ = Lease::bridge(&bytes, Ipv4Addr::LOCALHOST);
        let net = json!({"IP": ip, "Mask": base64});
        let file = json!({"IP": net, "MAC": base64, "Gateway": ip, "Routes": [{"Dst": net, "Gw": ip}]});
        let _ = Lease::bridge(file.to_string().as_bytes(), Ipv4Addr::LOCALHOST);
        let dns = DnsConfig::parse(&words).with_subdomain(&base64);
        prop_assert!(!dns.v4.is_empty() || !dns.v6.is_empty());
        prop_assert!(dns.search.iter().all(|domain| domain.len() <= 253 && !domain.split('.').any(str::is_empty)));
    }
}
