//! The domain's UUID in SMBIOS, from which libvirt takes the domain's if there is no other.

use super::*;

/// A domain whose UUID is in SMBIOS, as KubeVirt writes it.
fn with_uuid() -> String {
    BASE.replace(
        "<system/>",
        "<system><entry name=\"uuid\">5d307ca9-b3ef-428c-8861-06e72d69f223</entry><entry name=\"serial\">1</entry></system>",
    )
}

#[tokio::test]
async fn no_module_changes_the_uuid_in_smbios() {
    let chain = chain_of("").await;
    let uuid = "<entry name=\"uuid\">5d307ca9-b3ef-428c-8861-06e72d69f223</entry>";
    let other = "<entry name=\"uuid\">00000000-0000-0000-0000-000000000001</entry>";
    for (domain, from, to) in [
        (BASE, "<system/>", &*format!("<system>{other}</system>")),
        (
            BASE,
            "<system/>",
            &format!("<system>{}</system>", other.replace("uuid", "u&#117;id")),
        ),
        (
            BASE,
            "<system/>",
            &format!("<system>{}</system>", other.replace("uuid", " UUID\n")),
        ),
        (
            BASE,
            "<system/>",
            &format!(
                "<system>{}</system>",
                other.replace(">00", "><![CDATA[]]>00")
            ),
        ),
        (&with_uuid(), uuid, other),
        (&with_uuid(), uuid, ""),
        (&with_uuid(), uuid, &format!("{other}{uuid}")),
        (&with_uuid(), uuid, &format!("{uuid}{other}")),
        (
            &with_uuid(),
            uuid,
            &uuid.replace("name=\"uuid\"", "name=\"sku\""),
        ),
        (&with_uuid(), "name=\"serial\"", "name=\"uuid\""),
        (&with_uuid(), "72d69f223<", "72d69f223<x/><"),
        (&with_uuid(), "72d69f223<", "72d69f22<x>3</x><"),
    ] {
        let answer = domain.replace(from, to);
        assert_ne!(answer, domain, "{from}");
        let error = define_from(&chain, domain, &answer).await.unwrap_err();
        let message = error.to_string();
        let is_named = message.contains("/domain/sysinfo[@type='smbios']/system");
        assert!(
            is_named && message.contains("it is not a hook's to change"),
            "{to}: {message}"
        );
    }
    // All of SMBIOS, or its table.
    for removed in [
        with_uuid().replace(&format!("{uuid}<entry name=\"serial\">1</entry>"), ""),
        {
            let xml = with_uuid();
            let (start, rest) = xml.split_once("<sysinfo").unwrap();
            start.to_owned() + rest.split_once("</sysinfo>").unwrap().1
        },
    ] {
        let error = define_from(&chain, &with_uuid(), &removed)
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("not a hook's to change"),
            "{error}"
        );
    }
    // Other entries of the table are the hook's.
    let serial = with_uuid().replace(">1</entry>", ">2</entry>");
    define_from(&chain, &with_uuid(), &serial).await.unwrap();
}

/// No grant restricts a gRPC sidecar: what it changes is recorded.
#[tokio::test]
async fn a_sidecars_change_of_the_uuid_in_smbios_is_recorded() {
    let dirs = HookDirs::new();
    const ENTRY: &str =
        "<system><entry name=\"uuid\">00000000-0000-0000-0000-000000000001</entry></system>";
    let behaviour = Behaviour {
        define: |xml| Ok(xml.replace("<system/>", ENTRY)),
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("s", "s.sock"), behaviour);
    let chain = collect(dirs.config(1)).await.unwrap();
    let (xml, runs) = define(&chain, "{}").await.unwrap();
    assert!(xml.contains(ENTRY));
    let changes: Vec<&str> = runs[0]
        .changes
        .iter()
        .map(|change| change.path.as_str())
        .collect();
    assert_eq!(
        changes,
        ["/domain/sysinfo[@type='smbios']/system/entry[@name='uuid']"]
    );
}
