//! Properties of any input. The fuzz target and the test that replays its corpus call the same function, which panics
//! if a property does not hold.
//!
//! `cargo +nightly fuzz run domain_xml_to_json -- -dict=../domain-xml/fuzz/xml.dict -max_len=2000`, in the directory of the
//! crate `domain`. New findings go into `corpus/domain_xml_to_json` under a name that says what they are.

use domain::libvirt_spec::DomainJson;
use domain::parse_domain_xml::parse;
use domain::reconcile::LiveDomain;
use domain::render_domain_xml::render;
use kubevirt_api::domain_metadata::KubeVirtMetadata;
use kubevirt_api::domain_state::{LifeCycle, reason};

/// A domain's XML, which hooks and libvirt wrote: refused with an error, or read into JSON that virt-handler can
/// decode, and the same when it is rendered and read again.
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
    let repeated = parse(&render(&spec)).expect("what was rendered can be read");
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
