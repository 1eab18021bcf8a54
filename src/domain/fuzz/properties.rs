//! Properties that hold for any input. The fuzz target and the test that replays its corpus call the same function,
//! which panics if a property does not hold.
//!
//! `cargo +nightly fuzz run domain_xml_to_json -- -dict=../domain-xml/fuzz/xml.dict -max_len=2000`, in the directory of
//! the crate `domain`. New findings go into `corpus/domain_xml_to_json` under a name that says what they are.

use domain::domain_spec_from_xml::parse;
use domain::domain_spec_to_xml::render;
use domain::libvirt_spec::DomainJson;
use domain::reconcile::LiveDomain;
use kubevirt_api::domain_metadata::KubeVirtMetadata;
use kubevirt_api::domain_state::{LifeCycle, reason};

/// A domain's XML from hooks or libvirt is either an error, or a domain that does not change when it is rendered and
/// parsed again, and whose JSON virt-handler can decode.
pub fn domain_xml_to_json(input: &[u8]) {
    let Ok(xml) = std::str::from_utf8(input) else {
        return;
    };
    let _ = KubeVirtMetadata::parse(xml);
    let _ = LiveDomain::parse(xml.to_owned());
    let spec = match parse(xml) {
        Ok(spec) => spec,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let repeated = parse(&render(&spec)).expect("rendered XML can be parsed");
    assert_eq!(repeated, spec);
    let metadata = KubeVirtMetadata::default();
    let json = DomainJson::new(
        "ns",
        "vm",
        spec,
        metadata,
        LifeCycle::Running,
        reason::UNKNOWN,
    );
    let json = json.to_json().expect("every key is a string");
    let value: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(value["kind"], "Domain");
}
