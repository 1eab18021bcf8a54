//! The rules of the dangerous set, applied to changes.

mod libvirt_schema_names;
mod value_rules;

use std::collections::{BTreeMap, BTreeSet};

use domain_xml::Document;
use domain_xml::host::diff;

use super::rules::{ATTRIBUTE_RULES, ELEMENT_RULES, Rule, When};
use super::{
    DANGEROUS_DEFAULTS, DangerKind, NodeLocation, REVIEWED_LIBVIRT, RULES_BY_NAME,
    unreviewed_libvirt,
};
use crate::policy::permission::libvirt_schema_for_tests::{Leaf, Schema, Values};
use crate::policy::permission::{Checker, dangers, libvirt_schema_for_tests};

fn rules() -> impl Iterator<Item = &'static Rule> {
    ELEMENT_RULES.iter().chain(ATTRIBUTE_RULES)
}

/// A domain with the node of this path, and this value.
fn domain(path: &str, value: &str) -> String {
    let mut steps: Vec<&str> = path.split('/').skip(2).collect();
    let attribute = match steps.last() {
        Some(last) if last.starts_with('@') => steps.pop(),
        _ => None,
    };
    let Some((last, ancestors)) = steps.split_last() else {
        return format!("<domain {}='{value}'/>", &attribute.unwrap()[1..]);
    };
    let open: String = ancestors.iter().map(|step| format!("<{step}>")).collect();
    let close: String = ancestors
        .iter()
        .rev()
        .map(|step| format!("</{step}>"))
        .collect();
    let node = match attribute {
        Some(attribute) => format!("<{last} {}='{value}'/>", &attribute[1..]),
        None => format!("<{last}>{value}</{last}>"),
    };
    format!("<domain>{open}{node}{close}</domain>")
}

/// The kinds of the dangers in all changes, outer ones before inner ones.
fn kinds(before: &str, after: &str) -> Vec<DangerKind> {
    let (before, after) = (
        Document::parse(before).unwrap(),
        Document::parse(after).unwrap(),
    );
    let changes = diff(&before, &after);
    assert!(!changes.is_empty());
    let dangers = changes
        .iter()
        .flat_map(|change| dangers(change, &before, &after));
    dangers.map(|danger| danger.kind).collect()
}

fn danger(before: &str, after: &str) -> Option<DangerKind> {
    kinds(before, after).first().copied()
}

/// The path of a node for which a rule applies.
fn path_of(rule: &Rule) -> String {
    let parent = rule
        .parent
        .map_or(String::new(), |parent| format!("{parent}/"));
    let element = rule.element.unwrap_or("anything");
    let attribute = rule
        .attribute
        .map_or(String::new(), |name| format!("/@{name}"));
    format!("/domain/devices/{parent}{element}{attribute}")
}

#[test]
fn every_rule_for_all_values_distinguishes_its_node_from_others() {
    for rule in rules().filter(|rule| matches!(rule.when, When::Always)) {
        let path = path_of(rule);
        let (none, one, other) = ("<domain/>", &domain(&path, "x"), &domain(&path, "y"));
        for (before, after) in [(none, one.as_str()), (one, none), (one, other)] {
            let kinds = kinds(before, after);
            assert!(kinds.contains(&rule.kind), "{path}: {kinds:?}");
        }
        let last = path.rfind(['/', '@']).unwrap() + 1;
        let harmless = format!("{}harmless", &path[..last]);
        let steps: Vec<&str> = path.split('/').collect();
        let is_in_danger = steps
            .iter()
            .any(|step| RULES_BY_NAME.contains_key(&(false, *step)));
        if rule.attribute.is_some() || !is_in_danger {
            // A new parent may be dangerous itself.
            let without = domain(path[..last].trim_end_matches(['/', '@']), "");
            assert_eq!(
                danger(&without, &domain(&harmless, "x")),
                None,
                "{harmless}"
            );
        }
    }
}

/// The kind of a path, whatever its value.
fn kind_of(path: &str) -> Option<DangerKind> {
    let document = Document::parse(&domain(path, "x")).unwrap();
    let kinds = Checker::new(&[], &document, &document).kinds_of_names(true);
    kinds.first().copied()
}

#[test]
fn every_attribute_with_a_dangerous_default_has_a_rule() {
    for default in DANGEROUS_DEFAULTS {
        let parent = match default.element {
            "listen" => "graphics/",
            _ => "",
        };
        let element = format!("/domain/devices/{parent}{}", default.element);
        let path = format!("{element}/@{}", default.attribute);
        // The display has an address of its own, and the `<listen>` none.
        let new =
            domain(&element, "").replace("<graphics><listen", "<graphics listen='::1'><listen");
        assert!(danger("<domain/>", &new).is_some(), "{path}");
        assert_eq!(danger("<domain/>", &new), kind_of(&path), "{path}");
    }
}

#[test]
fn a_removed_readonly_is_dangerous_and_a_removed_disk_is_not() {
    let disk = |inside: &str| format!("<domain><devices><disk>{inside}</disk></devices></domain>");
    let kind = Some(DangerKind::DiskAccess);
    assert_eq!(danger(&disk("<readonly/>"), &disk("")), kind);
    assert_eq!(danger(&disk(""), &disk("<readonly/>")), None);
    let none = "<domain><devices/></domain>";
    assert_eq!(danger(&disk("<readonly/>"), none), None);
    assert_eq!(danger(&disk("<shareable/>"), none), kind);
}

#[test]
fn kind_names_are_parsed_back() {
    for kind in DangerKind::ALL {
        assert_eq!(kind.name().parse(), Ok(*kind));
        assert_eq!(kind.name(), format!("{kind:?}"));
    }
    let error = "Disk".parse::<DangerKind>().unwrap_err().to_string();
    assert!(error.contains("DiskFormat"), "{error}");
}

#[test]
fn a_newer_libvirt_is_reported() {
    assert_eq!(unreviewed_libvirt(11_003_000), None);
    assert_eq!(unreviewed_libvirt(11_003_009), None);
    assert_eq!(unreviewed_libvirt(9_000_000), None);
    for newer in [11_004_000, 12_000_000] {
        let warning = unreviewed_libvirt(newer).unwrap();
        assert!(warning.contains("newer than 11.3"), "{warning}");
    }
}

#[test]
fn location_decides_whether_a_dangerous_value_counts() {
    let document = Document::parse("<on_crash>coredump-destroy</on_crash>").unwrap();
    let kind = |location| super::of_element(document.root(), None, location);
    assert_eq!(kind(NodeLocation::After), Some(DangerKind::CoreDump));
    assert_eq!(kind(NodeLocation::InPattern), Some(DangerKind::CoreDump));
    assert_eq!(kind(NodeLocation::Before), None);
}

/// libvirt joins the text of all descendants, so it reads `coredump-destroy` here.
#[test]
fn text_in_several_nodes_is_dangerous() {
    let split = "<domain><on_crash>core<x>dump-destroy</x></on_crash></domain>";
    let plain = "<domain><on_crash>destroy</on_crash></domain>";
    let kind = Some(DangerKind::CoreDump);
    assert_eq!(danger("<domain/>", split), kind);
    assert_eq!(danger(plain, split), kind);
    assert_eq!(danger(split, plain), None);
    let entry = "<domain><sysinfo><entry>a<x>,file=/etc/shadow</x></entry></sysinfo></domain>";
    assert_eq!(danger("<domain/>", entry), Some(DangerKind::Hypervisor));
}

/// A channel of type `unix` has a socket in libvirt's own directory, but the channel's name is a part of the socket's
/// path if there is no source.
#[test]
fn values_that_libvirt_does_not_escape_are_dangerous_in_new_and_changed_elements() {
    let agent = "<domain><devices><channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/>\
                 </channel></devices></domain>";
    let elsewhere = agent.replace("org.qemu", "../../run/org.qemu");
    assert_eq!(danger(agent, &elsewhere), Some(DangerKind::HostPath));
    assert_eq!(danger("<domain/>", &elsewhere), Some(DangerKind::HostPath));
    assert_eq!(danger("<domain/>", agent), None);
    let unix = "<domain><devices><graphics type='vnc' listen='unix'/></devices></domain>";
    assert_eq!(danger("<domain/>", unix), Some(DangerKind::HostDisplay));
    let smbios = "<domain><sysinfo type='smbios'><system><entry name='serial'>,file=/x</entry></system></sysinfo></domain>";
    assert_eq!(danger("<domain/>", smbios), None);
}

#[test]
fn displays_may_only_listen_on_the_loopback_address() {
    let display = |address: &str| {
        format!("<domain><devices><graphics type='vnc' listen='{address}'/></devices></domain>")
    };
    for address in ["127.0.0.1", "127.9.9.9", "::1", "localhost"] {
        assert_eq!(danger("<domain/>", &display(address)), None, "{address}");
    }
    for address in [
        "0.0.0.0",
        "::",
        "10.0.0.1",
        "",
        "unix",
        "vm.example.org",
        "::ffff:127.0.0.1",
    ] {
        let kind = danger("<domain/>", &display(address));
        assert_eq!(kind, Some(DangerKind::HostDisplay), "{address}");
    }
}

/// What the guest does with it: QEMU's `fwcfg`, OEM strings and some values are instructions to programs in the guest.
#[test]
fn instructions_to_the_guest_are_dangerous() {
    let kind = Some(DangerKind::GuestProvisioning);
    let smbios = |table: &str| format!("<domain><sysinfo type='smbios'>{table}</sysinfo></domain>");
    let entry = |value: &str| {
        smbios(&format!(
            "<system><entry name='serial'>{value}</entry></system>"
        ))
    };
    let fwcfg = "<domain><sysinfo type='fwcfg'><entry name='opt/a'>1</entry></sysinfo></domain>";
    let (none, plain) = ("<domain/>", smbios(""));
    for (before, after) in [
        (none, fwcfg.to_owned()),
        (fwcfg, none.to_owned()),
        (fwcfg, fwcfg.replace(">1<", ">2<")),
        (fwcfg, fwcfg.replace("opt/a", "opt/b")),
        (&plain, plain.replace("smbios", "fwcfg")),
        (&plain, plain.replace("smbios", "of-a-later-version")),
        (&plain, smbios("<oemStrings><entry>x</entry></oemStrings>")),
        (
            &smbios("<oemStrings><entry>x</entry></oemStrings>"),
            plain.clone(),
        ),
        (&plain, entry("ds=nocloud;s=http://10.0.0.1/")),
        (
            &plain,
            entry("io.systemd.stub.kernel-cmdline-extra=init=/bin/sh"),
        ),
        (&entry("1"), entry(" io.systemd.credential:a=b")),
        (&entry("1"), entry("x d<![CDATA[s]]>=nocloud")),
        (&entry("1"), entry("d<x>s=nocloud</x>")),
    ] {
        assert_eq!(danger(before, &after), kind, "{after}");
    }
    for cloud in [
        "OpenStack Nova",
        "OpenStack Compute",
        "OpenTelekomCloud",
        "GoogleCloud-1A2B",
        "Google Compute Engine",
        "Alibaba Cloud ECS",
        "vm-1.brightbox.com",
        "7783-7084-3265-9085-8269-3286-77",
        "DigitalOcean",
        " openstack nova",
        "Open<![CDATA[Stack]]> Nova",
    ] {
        assert_eq!(danger(&plain, &entry(cloud)), kind, "{cloud}");
        assert_eq!(danger(&entry("1"), &entry(cloud)), kind, "{cloud}");
        let chassis = smbios(&format!(
            "<chassis><entry name='asset'>{cloud}</entry></chassis>"
        ));
        assert_eq!(danger(&plain, &chassis), kind, "{cloud}");
    }
    // A value that is there becomes one that cloud-init reads.
    let sku = smbios("<system><entry name='sku'>OpenStack Nova</entry></system>");
    assert_eq!(danger(&sku, &sku.replace("sku", "product")), kind);
    for harmless in [
        "1",
        "odd=1",
        "my io.systemd.x",
        "x,file=/y",
        "KubeVirt",
        "OpenStack",
        "Google",
    ] {
        assert_eq!(danger(&plain, &entry(harmless)), None, "{harmless}");
    }
    assert_eq!(danger(&entry("ds=x"), &plain), None);
    // libvirt ignores the prefix of an attribute.
    let disguised = plain.replace(" type", " xmlns:x='u' x:type='fwcfg' type");
    assert!(kinds(&plain, &disguised).contains(&DangerKind::GuestProvisioning));
}

/// What the guest loses: protection from its host, its firmware's checks, its TPM's state.
#[test]
fn protections_of_the_guest_are_dangerous_if_they_are_removed_too() {
    use DangerKind::*;
    for (protection, kind) in [
        (
            "<launchSecurity type='sev'><policy>0x0003</policy></launchSecurity>",
            ConfidentialGuest,
        ),
        (
            "<launchSecurity type='sev-snp' kernelHashes='yes'/>",
            ConfidentialGuest,
        ),
        ("<os firmware='efi'/>", Boot),
        (
            "<os><firmware><feature name='secure-boot' enabled='yes'/></firmware></os>",
            Boot,
        ),
        ("<features><smm state='on'/></features>", Boot),
        (
            "<devices><tpm><backend type='emulator' persistent_state='yes'/></tpm></devices>",
            DiskAccess,
        ),
        (
            "<devices><tpm><backend><profile source='local:x'/></backend></tpm></devices>",
            HostPath,
        ),
    ] {
        let with = format!("<domain>{protection}</domain>");
        assert_eq!(danger("<domain/>", &with), Some(kind), "{protection}");
        assert_eq!(danger(&with, "<domain/>"), Some(kind), "{protection}");
    }
    let snp = "<domain><launchSecurity type='sev-snp' kernelHashes='yes'/></domain>";
    for after in [
        snp.replace("yes", "no"),
        snp.replace(" kernelHashes='yes'", ""),
    ] {
        assert_eq!(danger(snp, &after), Some(ConfidentialGuest), "{after}");
    }
}

/// A grant of what the guest alone acts on says nothing about files and sockets of the host.
#[test]
fn the_hosts_files_in_what_the_guest_acts_on_are_dangerous_themselves() {
    use DangerKind::*;
    for (element, expected) in [
        (
            "<sysinfo type='fwcfg'><entry name='opt/a' file='/etc/shadow'/></sysinfo>",
            HostPath,
        ),
        (
            "<sysinfo type='fwcfg'><entry name='opt/a,file=/etc/shadow'>1</entry></sysinfo>",
            Hypervisor,
        ),
        (
            "<sysinfo type='fwcfg'><entry name='opt/a'>1,file=/etc/shadow</entry></sysinfo>",
            Hypervisor,
        ),
        (
            "<launchSecurity type='tdx'><quoteGenerationService path='/x'/></launchSecurity>",
            HostPath,
        ),
        (
            "<launchSecurity type='tdx'><quoteGenerationService/></launchSecurity>",
            HostPath,
        ),
    ] {
        let kinds = kinds("<domain/>", &format!("<domain>{element}</domain>"));
        assert_eq!(kinds.len(), 2, "{element}: {kinds:?}");
        assert!(
            kinds.contains(&expected) && kinds[0].acts_on_guest_alone(),
            "{element}: {kinds:?}"
        );
    }
}
