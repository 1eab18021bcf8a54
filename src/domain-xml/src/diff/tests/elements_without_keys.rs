//! Pairing of elements that no key identifies.

use super::*;

#[test]
fn duplicate_keys_fall_back_to_position() {
    let args = |values: &[&str]| {
        let args: String = values
            .iter()
            .map(|value| format!("<q:arg value='{value}'/>"))
            .collect();
        format!(
            "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:commandline>{args}</q:commandline></domain>"
        )
    };
    assert_eq!(
        changes_as_text(
            &args(&["-device", "a"]),
            &args(&["-device", "a", "-device", "b"])
        ),
        [
            "+ /domain/qemu:commandline/qemu:arg[3] <q:arg value='-device'/>",
            "+ /domain/qemu:commandline/qemu:arg[@value='b'] <q:arg value='b'/>",
        ]
    );
}

#[test]
fn elements_without_a_key_pair_by_position() {
    assert_eq!(
        changes_as_text("<a><b x='1'/><b x='2'/></a>", "<a><b x='1'/><b x='3'/></a>"),
        ["~ /a/b[2]/@x 2 => 3"]
    );
    assert_eq!(
        changes_as_text("<a><vendor id='1'/></a>", "<a><vendor id='2'/></a>"),
        ["~ /a/vendor/@id 1 => 2"]
    );
    assert_eq!(
        changes_as_text("<a><video/></a>", "<a><video><alias name='v'/></video></a>"),
        ["+ /a/video/alias <alias name='v'/>"]
    );
}

/// A device that is attached is alone in its document, and has the path that it has in the domain.
#[test]
fn the_path_of_a_device_with_an_alias_does_not_depend_on_its_siblings() {
    for name in ["disk", "interface", "hostdev"] {
        let device =
            |managed: &str| format!("<{name} managed='{managed}'><alias name='ua-a'/></{name}>");
        let other = format!("<{name}><alias name='ua-b'/></{name}>");
        for siblings in ["", other.as_str()] {
            let domain =
                |managed: &str| format!("<devices>{}{siblings}</devices>", device(managed));
            assert_eq!(
                changes_as_text(&domain("yes"), &domain("no")),
                [format!(
                    "~ /devices/{name}[alias/@name='ua-a']/@managed yes => no"
                )]
            );
        }
    }
}

#[test]
fn elements_without_a_key_pair_by_equal_content() {
    let hostdevs = |buses: &[u8]| {
        let list = buses
            .iter()
            .map(|bus| format!("<hostdev><address bus='{bus}'/></hostdev>"));
        format!("<devices>{}</devices>", list.collect::<String>())
    };
    assert_eq!(
        changes_as_text(&hostdevs(&[1, 2]), &hostdevs(&[9, 1, 2])),
        ["+ /devices/hostdev[1] <hostdev><address bus='9'/></hostdev>"]
    );
    assert_eq!(
        changes_as_text(&hostdevs(&[1, 2, 3]), &hostdevs(&[1, 3])),
        ["- /devices/hostdev[2] <hostdev><address bus='2'/></hostdev>"]
    );
    assert_eq!(
        changes_as_text(&hostdevs(&[1, 2]), &hostdevs(&[2, 1])),
        ["> /devices/hostdev[1] 1 => 2"]
    );
    assert_eq!(
        changes_as_text(&hostdevs(&[1, 2]), &hostdevs(&[1, 3])),
        ["~ /devices/hostdev[2]/address/@bus 2 => 3"]
    );
    // However it is written.
    assert_eq!(
        changes_as_text(
            "<a><rng>x&amp;</rng><rng><![CDATA[x&]]></rng></a>",
            "<a><rng><![CDATA[x&]]></rng><rng>x&#38;</rng></a>"
        ),
        [""; 0]
    );
}

#[test]
fn unquotable_keys_fall_back_to_position() {
    let both = "<a><b name='&apos;&quot;' x='1'/></a>";
    assert_eq!(
        changes_as_text(both, &both.replace("'1'", "'2'")),
        ["~ /a/b/@x 1 => 2"]
    );
    let long = format!("<a><b name='{}' x='1'/><b x='1'/></a>", "n".repeat(1000));
    assert_eq!(
        changes_as_text(&long, &long.replace("x='1'", "x='2'")),
        ["~ /a/b[1]/@x 1 => 2", "~ /a/b[2]/@x 1 => 2"]
    );
    assert_eq!(
        changes_as_text(
            "<a><timer name=\"it's\" x='1'/></a>",
            "<a><timer name=\"it's\"/></a>"
        ),
        ["- /a/timer[@name=\"it's\"]/@x 1"]
    );
}
