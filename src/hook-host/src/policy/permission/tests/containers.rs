//! Missing parents that a grant of something inside of them includes.

use std::collections::BTreeSet;
use std::process::Command;

use super::super::CONTAINERS;
use super::super::read_once_elements::is_read_once;
use super::*;

const PLAIN: &str = "<domain><vcpu>2</vcpu></domain>";

fn grants(patterns: &[&str], content: &str) -> bool {
    granted(
        patterns,
        PLAIN,
        &format!("<domain><vcpu>2</vcpu>{content}</domain>"),
    )
}

#[test]
fn a_grant_of_something_in_a_container_includes_the_missing_container() {
    let pin = "<iothreadpin iothread='1' cpuset='3'/>";
    let tune = format!("<cputune>{pin}</cputune>");
    for patterns in [
        &["/domain/cputune/iothreadpin/**"][..],
        &["/domain/cputune/iothreadpin[@iothread='1']/**"],
        &[
            "/domain/cputune/iothreadpin",
            "/domain/cputune/iothreadpin/@*",
        ],
        &["/domain/cputune/*/**"],
        &["/domain/*/iothreadpin/**"],
    ] {
        assert!(grants(patterns, &tune), "{patterns:?}");
    }
    for (patterns, content) in [
        // Something else in it.
        (
            &["/domain/cputune/iothreadpin/**"][..],
            format!("<cputune>{pin}<shares>9</shares></cputune>"),
        ),
        (
            &["/domain/cputune/iothreadpin/**"],
            format!("<cputune x='1'>{pin}</cputune>"),
        ),
        (
            &["/domain/cputune/iothreadpin/**"],
            format!("<cputune>text{pin}</cputune>"),
        ),
        (&["/domain/cputune/iothreadpin/**"], "<cputune/>".to_owned()),
        (&["/domain/cputune/iothreadpin/@cpuset"], tune.clone()),
        (&["/domain/cputune/shares"], tune.clone()),
        (&["/domain/cputune/@x"], tune.clone()),
        (&["/domain/memtune/**"], tune.clone()),
        // A second one, of which libvirt would read one.
        (
            &["/domain/cputune/iothreadpin/**"],
            format!("<cputune><shares>9</shares></cputune>{tune}"),
        ),
        // In a namespace it is another element.
        (
            &["/domain/cputune/iothreadpin/**"],
            format!("<x:cputune xmlns:x='u'>{pin}</x:cputune>"),
        ),
        // Switches, and elements with defaults.
        (
            &["/domain/features/kvm/hidden/**"],
            "<features><kvm><hidden state='on'/></kvm></features>".to_owned(),
        ),
        (
            &["/domain/memoryBacking/hugepages/**"],
            "<memoryBacking><hugepages/></memoryBacking>".to_owned(),
        ),
        (
            &["/domain/cpu/topology/**"],
            "<cpu><topology sockets='1' cores='1' threads='1'/></cpu>".to_owned(),
        ),
    ] {
        assert!(!grants(patterns, &content), "{patterns:?} {content}");
    }
    // It comes with its content, and does not go with it.
    let with = format!("<domain><vcpu>2</vcpu>{tune}</domain>");
    assert!(!granted(&["/domain/cputune/iothreadpin/**"], &with, PLAIN));
}

#[test]
fn the_content_of_a_new_container_is_dangerous_as_elsewhere() {
    let scheduler = "<cputune><vcpusched vcpus='0' scheduler='fifo' priority='1'/></cputune>";
    assert!(!grants(&["/domain/cputune/*/**"], scheduler));
    assert!(grants(&["/domain/cputune/vcpusched/**"], scheduler));
}

/// Of all elements in elements of libvirt's schema, only the containers can be made by a grant of something inside.
#[test]
fn no_other_element_is_made_by_a_grant_of_what_is_in_it() {
    let schema = libvirt_schema_for_tests::read();
    let mut made = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for (parent, child) in schema.counts.keys() {
        let [.., around, element] = &parent[..] else {
            continue;
        };
        if !seen.insert((around.clone(), element.clone(), child.clone())) {
            continue;
        }
        let outer = &parent[..parent.len() - 1];
        let open: String = outer.iter().map(|name| format!("<{name}>")).collect();
        let close: String = outer
            .iter()
            .rev()
            .map(|name| format!("</{name}>"))
            .collect();
        let pattern = format!("/{}/{child}/**", parent.join("/"));
        let [Ok(before), Ok(after)] = [
            Document::parse(&format!("{open}{close}")),
            Document::parse(&format!("{open}<{element}><{child}/></{element}>{close}")),
        ] else {
            continue;
        };
        let patterns = paths(&[&pattern]);
        let mut checker = Checker::new(&patterns, &before, &after);
        let changes = diff(&before, &after);
        let is_granted = changes
            .iter()
            .all(|change| matches!(checker.permits(change), Permission::Granted { .. }));
        if is_granted && !changes.is_empty() {
            made.insert((around.clone(), element.clone()));
        }
    }
    let containers = CONTAINERS
        .iter()
        .map(|(parent, child)| ((*parent).to_owned(), (*child).to_owned()));
    assert_eq!(made, containers.collect());
}

/// In libvirt's schema a container has neither attributes nor text, and libvirt reads it once.
#[test]
fn a_container_has_nothing_of_its_own() {
    let schema = libvirt_schema_for_tests::read();
    for (parent, child) in CONTAINERS {
        let is_container =
            |path: &[String]| path.ends_with(&[(*parent).to_owned(), (*child).to_owned()]);
        let own = schema.leaves.keys().find(|(path, _)| is_container(path));
        assert_eq!(own, None);
        assert!(
            schema.counts.keys().any(|(path, _)| is_container(path)),
            "{parent}/{child}"
        );
        assert!(is_read_once(parent, child), "{parent}/{child}");
    }
}

/// The domain as libvirt writes it after it has read it.
fn as_libvirt_reads(xml: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("domain.xml");
    std::fs::write(&file, xml).unwrap();
    let commands = format!("define {}; dumpxml a", file.display());
    let output = Command::new("virsh")
        .args(["-q", "-c", "test:///default", &commands])
        .output()
        .unwrap();
    let written = String::from_utf8(output.stdout).unwrap();
    assert!(
        written.contains("<name>a</name>"),
        "{xml}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    written
}

#[test]
fn libvirt_reads_a_domain_with_an_empty_container_as_one_without() {
    for (parent, child) in CONTAINERS {
        let domain = |content: &str| {
            let (top, disk, interface, sysinfo) = match *parent {
                "disk" => ("", content, "", ""),
                "interface" => ("", "", content, ""),
                "sysinfo" => ("", "", "", content),
                _ => (content, "", "", ""),
            };
            as_libvirt_reads(&format!(
                "<domain type='test'><name>a</name><uuid>5a9f1c1e-0000-4000-8000-000000000001</uuid><memory>1024</memory>\
                 <vcpu>2</vcpu><iothreads>1</iothreads><os><type>hvm</type></os>{top}\
                 <sysinfo type='smbios'><oemStrings><entry>x</entry></oemStrings>{sysinfo}</sysinfo><devices>\
                 <disk type='file' device='disk'><source file='/x'/><target dev='vda' bus='virtio'/>{disk}</disk>\
                 <interface type='network'><mac address='52:54:00:00:00:01'/><source network='default'/>{interface}\
                 </interface></devices></domain>"
            ))
        };
        assert_eq!(
            domain(&format!("<{child}/>")),
            domain(""),
            "{parent}/{child}"
        );
    }
}
