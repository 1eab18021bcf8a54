//! The cases in vmi-to-domain-xml/: VMI, options and host facts to domain XML or an error.

use std::collections::BTreeSet;
use std::path::PathBuf;

use domain::convert::convert;
use domain::domain_spec_to_xml::render;
use domain::driver_modes::{DirectIoProbe, ProbeError, set_driver_modes};
use domain::host_facts::HostFacts;
use domain::kubevirt_version::KubeVirtVersion;
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

/// Cases: files with their inputs, and what a version of KubeVirt makes of them.
struct Cases {
    version: KubeVirtVersion,
    inputs: PathBuf,
    /// The first directory that has a result of the case is right. The last one has a result of each case.
    results: Vec<PathBuf>,
}

impl Cases {
    /// The cases of `directory`, with the results of `version` where it differs from v1.9.
    fn of(directory: &str, version: KubeVirtVersion) -> Self {
        let (inputs, differing) = match directory {
            "version-differences" => (format!("{directory}/v1.9.0"), format!("{directory}/")),
            _ => (directory.to_owned(), format!("{directory}-")),
        };
        let differing = match version {
            KubeVirtVersion::V1_8 => Some(format!("{differing}v1.8.4")),
            KubeVirtVersion::V1_9 => None,
            KubeVirtVersion::V1_10 => Some(format!("{differing}main")),
        };
        let results = differing.into_iter().chain([inputs]);
        Self {
            version,
            inputs: corpus().join(directory),
            results: results.map(|directory| corpus().join(directory)).collect(),
        }
    }

    fn v1_9() -> Self {
        Self::of("vmi-to-domain-xml", KubeVirtVersion::V1_9)
    }

    fn names(&self) -> BTreeSet<String> {
        names(&self.inputs, ".vmi.json")
    }

    /// The text of the case's own file of this kind, or else of all cases'.
    fn own_or_common(&self, case: &str, kind: &str) -> String {
        let own = self.inputs.join(format!("{case}.{kind}.json"));
        match own.exists() {
            true => read(&own),
            false => read(&self.inputs.join(format!("{kind}.json"))),
        }
    }

    fn host(&self, case: &str) -> HostFacts {
        HostFacts {
            kubevirt_version: self.version,
            ..serde_json::from_str(&self.own_or_common(case, "host")).unwrap()
        }
    }

    fn convert(&self, case: &str) -> Result<DomainSpec, String> {
        let vmi = read(&self.inputs.join(format!("{case}.vmi.json")));
        let vmi = Vmi::from_json(vmi.as_bytes()).map_err(|error| error.to_string())?;
        let options = self.own_or_common(case, "options");
        let options: Options = serde_json::from_str(&options).unwrap();
        convert(&vmi, &options, &self.host(case)).map_err(|error| error.to_string())
    }

    /// The file with a case's result, without its ending.
    fn result(&self, case: &str) -> PathBuf {
        let has_result = |directory: &&PathBuf| {
            let exists = |ending| directory.join(format!("{case}{ending}")).exists();
            exists(".xml") || exists(".error")
        };
        let directory = self.results.iter().find(has_result);
        directory
            .unwrap_or_else(|| panic!("no result of {case}"))
            .join(case)
    }

    fn check(&self, case: &str) -> Result<(), String> {
        let result = self.result(case);
        let file = |ending: &str| PathBuf::from(format!("{}{ending}", result.display()));
        if file(".error").exists() {
            return match self.convert(case) {
                Err(message) if message == read(&file(".error")).trim() => Ok(()),
                other => Err(format!("expected an error, got {other:?}")),
            };
        }
        let mut spec = self.convert(case)?;
        compare_xml_and_json::compare_xml(&read(&file(".xml")), &render(&spec))?;
        if file(".driver-modes.xml").exists() {
            let node = Node {
                direct_io: self.host(case).direct_io,
            };
            set_driver_modes(&mut spec, &node).map_err(|error| error.to_string())?;
            compare_xml_and_json::compare_xml(&read(&file(".driver-modes.xml")), &render(&spec))
                .map_err(|error| format!("with driver modes: {error}"))?;
        }
        Ok(())
    }
}

#[test]
fn vmis_convert_to_domains() {
    for version in KubeVirtVersion::ALL {
        let cases = Cases::of("vmi-to-domain-xml", version);
        run("vmi-to-domain-xml", &cases.names(), |case| {
            cases
                .check(case)
                .map_err(|error| format!("{version}: {error}"))
        });
    }
}

/// VMIs of all kinds that KubeVirt accepts for nodes of an architecture.
fn vmis_of_architecture_convert_to_domains(architecture: &str, count: usize) {
    let directory = format!("vmi-to-domain-xml-{architecture}");
    for version in KubeVirtVersion::ALL {
        let cases = Cases::of(&directory, version);
        assert_eq!(cases.names().len(), count, "{architecture}");
        run(&directory, &cases.names(), |case| {
            cases
                .check(case)
                .map_err(|error| format!("{version}: {error}"))
        });
    }
}

#[test]
fn vmis_of_arm64_convert_to_domains() {
    vmis_of_architecture_convert_to_domains("arm64", 260);
}

#[test]
fn vmis_of_s390x_convert_to_domains() {
    vmis_of_architecture_convert_to_domains("s390x", 265);
}

/// VMIs of manifests that people published, with the status and the options that they have in a cluster, and as root.
#[test]
fn published_vmis_convert_to_domains() {
    let directory = corpus().join("manifest-to-domain-xml");
    let cases = Cases {
        version: KubeVirtVersion::V1_9,
        inputs: directory.clone(),
        results: vec![directory],
    };
    let names = cases.names();
    let as_root = names.iter().filter(|name| name.ends_with("+root"));
    assert_eq!((names.len(), as_root.count()), (141, 18));
    run("manifest-to-domain-xml", &names, |case| cases.check(case));
}

/// v1.8 pins the threads of an IO thread pool to CPUs that the pod may not have; this launcher does as later versions.
#[test]
fn what_versions_convert_differently_is_converted_so() {
    let has_later_rule = |case: &str| case.starts_with("pool");
    let v1_9 = Cases::of("version-differences", KubeVirtVersion::V1_9);
    for version in KubeVirtVersion::ALL {
        let cases = Cases::of("version-differences", version);
        run("version-differences", &cases.names(), |case| {
            let cases = if has_later_rule(case) { &v1_9 } else { &cases };
            cases
                .check(case)
                .map_err(|error| format!("{version}: {error}"))
        });
    }
}

/// Hook sidecars that edit the text expect that of Go's encoder: pairs of tags, escapes, quotes, order, tabs.
#[test]
fn rendered_domains_are_the_text_that_kubevirt_writes() {
    let cases = Cases::v1_9();
    run("vmi-to-domain-xml", &cases.names(), |case| {
        let path = cases.inputs.join(format!("{case}.xml"));
        let Ok(spec) = cases.convert(case) else {
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
    let cases = Cases::v1_9();
    for case in cases.names() {
        let Ok(mut spec) = cases.convert(&case) else {
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
    let spec = convert(&vmi, &Options::default(), &Cases::v1_9().host("")).unwrap();
    assert_eq!(spec.name, "default_vm1");
    assert_eq!(vmi.grace_period_seconds(), 5);
}
