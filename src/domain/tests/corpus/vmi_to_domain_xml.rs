//! vmi-to-domain-xml/: VMI, options and host facts to domain XML or an error.

use std::path::PathBuf;

use domain::convert::convert;
use domain::driver_modes::{DirectIoProbe, ProbeError, set_driver_modes};
use domain::host_facts::HostFacts;
use domain::libvirt_spec::DomainSpec;
use domain::render_domain_xml::render;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

use super::{compare, corpus, names, read, run};

/// The corpus' node: O_DIRECT as its facts say, nothing preallocated.
struct Node(bool);

impl DirectIoProbe for Node {
    fn block_device(&self, _path: &str) -> Result<bool, ProbeError> {
        Ok(self.0)
    }
    fn file(&self, _path: &str) -> Result<bool, ProbeError> {
        Ok(self.0)
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

fn spec(case: &str) -> Result<DomainSpec, String> {
    let file = |ending: &str| read(&directory().join(format!("{case}{ending}")));
    let vmi = Vmi::from_json(file(".vmi.json").as_bytes()).map_err(|error| error.to_string())?;
    let options: Options = serde_json::from_str(&file(".options.json")).unwrap();
    convert(&vmi, &options, &host()).map_err(|error| error.to_string())
}

fn check(case: &str) -> Result<(), String> {
    let file = |ending: &str| directory().join(format!("{case}{ending}"));
    if file(".error").exists() {
        return match spec(case) {
            Err(message) if message == read(&file(".error")).trim() => Ok(()),
            other => Err(format!("expected a refusal, got {other:?}")),
        };
    }
    let mut spec = spec(case)?;
    compare::xml(&read(&file(".xml")), &render(&spec))?;
    if file(".driver-modes.xml").exists() {
        set_driver_modes(&mut spec, &Node(host().direct_io)).map_err(|error| error.to_string())?;
        compare::xml(&read(&file(".driver-modes.xml")), &render(&spec))
            .map_err(|error| format!("prepared: {error}"))?;
    }
    Ok(())
}

#[test]
fn vmis_convert_to_domains() {
    run(
        "vmi-to-domain-xml",
        &names(&directory(), ".vmi.json"),
        check,
    );
}

/// Reading back what was rendered gives the same domain.
#[test]
fn rendered_domains_parse_to_themselves() {
    for case in names(&directory(), ".vmi.json") {
        let Ok(mut spec) = spec(&case) else { continue };
        // As in KubeVirt, what has a namespace prefix is only ever written.
        spec.xmlns_qemu.clear();
        spec.qemu_commandline = None;
        assert_eq!(
            domain::parse_domain_xml::parse(&render(&spec)).unwrap(),
            spec,
            "{case}"
        );
    }
}

/// The VMI of the recorded life cycle.
#[test]
fn the_lifecycle_vmi_converts() {
    let vmi = Vmi::from_json(
        read(&corpus().join("launcher-transcripts/vmi-of-all-transcripts.json")).as_bytes(),
    )
    .unwrap();
    let spec = convert(&vmi, &Options::default(), &host()).unwrap();
    assert_eq!(spec.name, "default_vm1");
    assert_eq!(vmi.grace_period_seconds(), 5);
}
