//! `requires`: versions that are in the range, outside of the range, or not known.

use super::*;

fn package_version() -> Version {
    Version::new(0, 1, 1)
}

fn yaml(text: &str) -> Result<HookYaml, PolicyError> {
    HookYaml::parse(Path::new("h/hook.yaml"), text)
}

fn host_versions() -> HostVersions {
    HostVersions {
        libvirt: Some(Version::new(11, 3, 0)),
        kubevirt: Some(Version::parse("1.10.0-rc.1").unwrap()),
        unknown: UnknownVersion::Refuse,
    }
}

fn refused(text: &str, versions: &HostVersions) -> String {
    yaml(text)
        .unwrap()
        .require(&package_version(), versions)
        .unwrap_err()
        .to_string()
}

#[test]
fn requirements_that_are_met_are_accepted() {
    for text in [
        "{}\n",
        "requires: {}\n",
        "requires: {libvirt: '>=11.0, <13', kubevirt: 1.9, hooks: 0.1}\n",
        "requires: {libvirt: '11', kubevirt: '>=1.10', hooks: '0.1.1'}\n",
        "requires: {libvirt: '*'}\n",
    ] {
        assert_eq!(
            yaml(text)
                .unwrap()
                .require(&package_version(), &host_versions()),
            Ok(Vec::new()),
            "{text}"
        );
    }
}

#[test]
fn unmet_requirements_are_refused_with_their_position_and_both_versions() {
    let libvirt = "requires:\n  libvirt: '>=12'\n";
    assert_eq!(
        refused(libvirt, &host_versions()),
        "h/hook.yaml:2:12: the hook requires libvirt >=12, and this is libvirt 11.3.0: use a version of the \
         hook for it, or an image with another libvirt"
    );
    let kubevirt = refused("requires: {kubevirt: '<1.10'}\n", &host_versions());
    assert!(
        kubevirt.contains("this is KubeVirt 1.10.0-rc.1"),
        "{kubevirt}"
    );
    let hooks = refused("requires: {hooks: '>=7'}\n", &host_versions());
    assert!(hooks.contains("virt-hook:hooks 0.1."), "{hooks}");
}

#[test]
fn unknown_host_version_is_refused_or_noted() {
    let text = "requires: {libvirt: '>=11', hooks: '0.1'}\n";
    let unknown = refused(text, &HostVersions::default());
    assert!(
        unknown.contains("libvirt is not known here: give it with --libvirt-version"),
        "{unknown}"
    );
    let warn = HostVersions {
        unknown: UnknownVersion::Warn,
        ..HostVersions::default()
    };
    let warnings = yaml(text)
        .unwrap()
        .require(&package_version(), &warn)
        .unwrap();
    assert!(
        warnings.len() == 1 && warnings[0].contains("libvirt >=11"),
        "{warnings:?}"
    );
    // Versions that are known are compared nevertheless.
    assert!(
        yaml("requires: {hooks: '9'}\n")
            .unwrap()
            .require(&package_version(), &warn)
            .is_err()
    );
}

#[test]
fn malformed_ranges_are_refused_with_their_position() {
    for (text, start, part) in [
        (
            "requires: {libvirt: new}\n",
            "h/hook.yaml:1:21: ",
            "\"new\" is not a version range",
        ),
        (
            "requires: {libvirt: ''}\n",
            "h/hook.yaml:1:21: ",
            "not a version range",
        ),
        (
            "requires: {libvirt: '>=11 <13'}\n",
            "h/hook.yaml:1:21: ",
            "not a version range",
        ),
        ("requires:\n  qemu: '>=10'\n", "h/hook.yaml:2:3: ", "qemu"),
        ("requires: ['11']\n", "h/hook.yaml:1:11: ", ""),
        ("requires: {libvirt: [1]}\n", "h/hook.yaml:1:21: ", ""),
        ("requires: {libvirt: }\n", "h/hook.yaml:1:", ""),
    ] {
        let error = yaml(text).unwrap_err().to_string();
        assert!(
            error.starts_with(start) && error.contains(part),
            "{text:?}: {error}"
        );
    }
    let long = format!("requires: {{libvirt: '{}'}}\n", ">=1, ".repeat(100));
    assert!(
        yaml(&long)
            .unwrap_err()
            .to_string()
            .contains("at most 256 bytes")
    );
}
