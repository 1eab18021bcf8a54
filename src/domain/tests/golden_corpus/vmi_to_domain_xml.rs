//! The cases in vmi-to-domain-xml/: VMI, options and host facts to domain XML or an error.

use std::path::PathBuf;

use domain::convert::convert;
use domain::domain_spec_to_xml::render;
use domain::driver_modes::{DirectIoProbe, ProbeError, set_driver_modes};
use domain::host_facts::HostFacts;
use domain::libvirt_spec::DomainSpec;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

use super::{compare_xml_and_json, corpus, names, read, run};

/// The corpus' node: O_DIRECT works or not for all files and devices, and no image is preallocated.
struct Node {
    direct_io: bool,
}

impl DirectIoProbe for Node {
    fn block_device(&self, _path: &str) -> Result<bool, ProbeError> {
        Ok(self.direct_io)
    }
    fn file(&self, _path: &str) -> Result<bool, ProbeError> {
        Ok(self.direct_io)
    }
    fn preallocated(&self, _path: &str) -> bool {
        false
    }
}

fn directory() -> PathBuf {
    corpus().join("vmi-to-domain-xml")
}

fn host() -> HostFacts {
    serde_json::from_str(&read(&directory().join("host.json"))).unwrap()
}

fn convert_case(case: &str) -> Result<DomainSpec, String> {
    let file = |ending: &str| read(&directory().join(format!("{case}{ending}")));
    let vmi = Vmi::from_json(file(".vmi.json").as_bytes()).map_err(|error| error.to_string())?;
    let options: Options = serde_json::from_str(&file(".options.json")).unwrap();
    convert(&vmi, &options, &host()).map_err(|error| error.to_string())
}

fn check_case(case: &str) -> Result<(), String> {
    let file = |ending: &str| directory().join(format!("{case}{ending}"));
    if file(".error").exists() {
        return match convert_case(case) {
            Err(message) if message == read(&file(".error")).trim() => Ok(()),
            other => Err(format!("expected an error, got {other:?}")),
        };
    }
    let mut spec = convert_case(case)?;
    compare_xml_and_json::compare_xml(&read(&file(".xml")), &render(&spec))?;
    if file(".driver-modes.xml").exists() {
        let node = Node {
            direct_io: host().direct_io,
        };
        set_driver_modes(&mut spec, &node).map_err(|error| error.to_string())?;
        compare_xml_and_json::compare_xml(&read(&file(".driver-modes.xml")), &render(&spec))
            .map_err(|error| format!("with driver modes: {error}"))?;
    }
    Ok(())
}

#[test]
fn vmis_convert_to_domains() {
    run(
        "vmi-to-domain-xml",
        &names(&directory(), ".vmi.json"),
        check_case,
    );
}

/// Hook sidecars that edit the text expect that of Go's encoder: pairs of tags, escapes, quotes, order, tabs.
#[test]
fn rendered_domains_are_the_text_that_kubevirt_writes() {
    let cases = names(&directory(), ".vmi.json");
    run("vmi-to-domain-xml", &cases, |case| {
        let path = directory().join(format!("{case}.xml"));
        let Ok(spec) = convert_case(case) else {
            return Ok(());
        };
        let (expected, rendered) = (read(&path), render(&spec));
        let mut lines = expected.trim_end().lines().zip(rendered.lines());
        match lines.find(|(expected, rendered)| expected != rendered) {
            Some((expected, rendered)) => Err(format!("expected {expected:?}, got {rendered:?}")),
            None if expected.trim_end() == rendered => Ok(()),
            None => Err("one of both texts is longer".to_owned()),
        }
    });
}

/// Parsing the rendered domain gives the same domain.
#[test]
fn rendered_domains_parse_to_themselves() {
    for case in names(&directory(), ".vmi.json") {
        let Ok(mut spec) = convert_case(&case) else {
            continue;
        };
        // As in KubeVirt, elements and attributes with a namespace prefix are written and not parsed.
        spec.xmlns_qemu.clear();
        spec.qemu_commandline = None;
        assert_eq!(
            domain::domain_spec_from_xml::parse(&render(&spec)).unwrap(),
            spec,
            "{case}"
        );
    }
}

#[test]
fn vmi_of_the_recorded_life_cycle_converts() {
    let vmi = Vmi::from_json(
        read(&corpus().join("launcher-transcripts/vmi-of-all-transcripts.json")).as_bytes(),
    )
    .unwrap();
    let spec = convert(&vmi, &Options::default(), &host()).unwrap();
    assert_eq!(spec.name, "default_vm1");
    assert_eq!(vmi.grace_period_seconds(), 5);
}
