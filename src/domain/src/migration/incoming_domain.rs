//! The domain that a target receives, with what the target knows better than the source.

use domain_xml::Document;
use kubevirt_api::options::Options;
use kubevirt_api::vmi::Vmi;

use super::cpu_placement::TargetProcessors;
use super::error::MigrationXmlError;
use super::target_identity;
use crate::host::HostFacts;

/// The incoming domain with this host's processors, for a VM with dedicated ones, and with the paths of this cluster's
/// files. For a cluster whose sources leave that to the target (`--libvirt-hook-server-and-client`).
///
/// # Errors
/// [`MigrationXmlError`] if the XML is not understood, or this pod has too few processors.
pub fn incoming_xml(
    xml: String,
    vmi: &Vmi,
    options: &Options,
    host: &HostFacts,
) -> Result<String, MigrationXmlError> {
    let mut document = Document::parse_string(xml).map_err(crate::parse::ParseError::from)?;
    target_identity::rename_files(&mut document, vmi);
    if let Some(processors) = TargetProcessors::here(vmi, options, host)? {
        processors.place(&mut document);
    }
    Ok(document.render())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DOMAIN: &str = "<domain><vcpu>1</vcpu><cputune><vcpupin vcpu='0' cpuset='1'/></cputune>\
        <devices><disk type='file'><source file='/data/default/vm1/a.iso'/></disk></devices></domain>";

    #[test]
    fn pins_are_this_pods_and_files_this_namespaces() {
        let vmi = r#"{"metadata":{"name":"vm1","namespace":"other","uid":"u"},"spec":{"architecture":"amd64","domain":{
            "machine":{"type":"q35"},"memory":{"guest":"128Mi"},"cpu":{"cores":1,"dedicatedCpuPlacement":true}}},
            "status":{"migrationState":{"sourceState":{"domainName":"vm1","domainNamespace":"default"},
            "targetState":{"domainName":"vm1","domainNamespace":"other"}}}}"#;
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        let host = HostFacts {
            cpuset: vec![7],
            ..HostFacts::default()
        };
        let topology = r#"{"numa_cells":[{"id":0,"cpus":[{"id":7,"siblings":[7]}]}]}"#;
        let options = Options {
            topology: Some(serde_json::from_str(topology).unwrap()),
            ..Options::default()
        };
        let xml = incoming_xml(DOMAIN.into(), &vmi, &options, &host).unwrap();
        assert!(xml.contains("/data/other/vm1/a.iso"), "{xml}");
        assert!(
            xml.contains("cpuset=\"7\"") || xml.contains("cpuset='7'"),
            "{xml}"
        );
        assert!(!xml.contains("cpuset='1'"), "{xml}");
    }

    #[test]
    fn domain_of_a_plain_migration_stays_as_it_is() {
        let vmi = r#"{"metadata":{"name":"vm1","namespace":"default","uid":"u"}}"#;
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        let facts = HostFacts::default();
        let xml = incoming_xml(DOMAIN.into(), &vmi, &Options::default(), &facts).unwrap();
        assert_eq!(xml, DOMAIN);
        assert!(incoming_xml("<domain".into(), &vmi, &Options::default(), &facts).is_err());
    }
}
