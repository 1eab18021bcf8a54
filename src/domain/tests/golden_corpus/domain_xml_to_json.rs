//! The cases in domain-xml-to-json/: libvirt's XML to the Domain JSON that virt-handler decodes.

use domain::libvirt_spec::DomainJson;
use kubevirt_api::domain_metadata::{GracePeriod, KubeVirtMetadata, Migration};
use kubevirt_api::domain_state::{LifeCycle, reason};
use serde_json::Value;

use super::{compare_xml_and_json, corpus, names, read, run};

/// The Domain JSON of KubeVirt, in a directory of the corpus, and this launcher's for the same XML of libvirt.
fn expected_and_actual(directory: &str, case: &str) -> Result<[Value; 2], String> {
    let file = |file: String| read(&corpus().join(file));
    let xml = file(format!("domain-xml-to-json/{case}.dumpxml.xml"));
    let spec = domain::domain_spec_from_xml::parse(&xml).map_err(|error| error.to_string())?;
    let expected: Value =
        serde_json::from_str(&file(format!("{directory}/{case}.domain.json"))).unwrap();
    let [namespace, name] =
        ["namespace", "name"].map(|key| expected["ObjectMeta"][key].as_str().unwrap());
    let metadata = KubeVirtMetadata {
        uid: "11111111-2222-3333-4444-555555555555".into(),
        grace_period: Some(GracePeriod {
            deletion_grace_period_seconds: 30,
            ..GracePeriod::default()
        }),
        ..KubeVirtMetadata::default()
    };
    let domain = DomainJson::new(
        namespace,
        name,
        spec,
        metadata,
        LifeCycle::Running,
        reason::UNKNOWN,
    );
    let actual = serde_json::from_slice(&domain.to_json().unwrap()).unwrap();
    Ok([expected, actual])
}

fn check_case(case: &str) -> Result<(), String> {
    let [expected, actual] = expected_and_actual("domain-xml-to-json", case)?;
    compare_xml_and_json::compare_json(&expected, &actual, "")
}

/// virt-handlers of other versions ignore the fields that they do not know.
#[test]
fn domain_json_is_decoded_by_other_versions_as_theirs() {
    for (version, count) in [("v1.8.4", 3), ("main", 1)] {
        let directory = format!("domain-xml-to-json-{version}");
        let cases = names(&corpus().join(&directory), ".domain.json");
        assert_eq!(cases.len(), count, "{directory}");
        for case in cases {
            let [expected, actual] = expected_and_actual(&directory, &case).unwrap();
            let compared = compare_xml_and_json::compare_decoded_json(&expected, &actual, "");
            assert_eq!(compared, Ok(()), "{version}: {case}");
        }
    }
}

#[test]
fn domain_json_equals_kubevirts() {
    run(
        "domain-xml-to-json",
        &names(&corpus().join("domain-xml-to-json"), ".domain.json"),
        check_case,
    );
}

/// The last notification of the recorded life cycle.
#[test]
fn domain_json_of_a_gone_domain_equals_kubevirts() {
    let events = read(&corpus().join("launcher-transcripts/start-to-delete.events.jsonl"));
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    let timestamp = last["deletionTimestamp"].as_str().unwrap();
    let actual =
        serde_json::to_value(DomainJson::gone("default", "vm1", "1234", timestamp)).unwrap();
    compare_xml_and_json::compare_json(&last["domain"], &actual, "").unwrap();
}

/// The metadata in the notifications of the recorded life cycle.
#[test]
fn metadata_json_equals_kubevirts() {
    let events = read(&corpus().join("launcher-transcripts/start-to-delete.events.jsonl"));
    let metadata = KubeVirtMetadata {
        uid: "1234".into(),
        grace_period: Some(GracePeriod {
            deletion_grace_period_seconds: 5,
            deletion_timestamp: Some("2026-11-21T11:55:48Z".into()),
            marked_for_graceful_shutdown: None,
        }),
        migration: Some(Migration {
            end_timestamp: Some("2026-11-21T11:55:44Z".into()),
            ..Migration::default()
        }),
        ..KubeVirtMetadata::default()
    };
    let actual = serde_json::to_value(&metadata).unwrap();
    let has_metadata = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        compare_xml_and_json::compare_json(&event["metadata"]["KubeVirt"], &actual, "").is_ok()
    };
    assert!(events.lines().any(has_metadata));
    assert_eq!(
        KubeVirtMetadata::parse(&metadata.render()).unwrap(),
        metadata
    );
}
