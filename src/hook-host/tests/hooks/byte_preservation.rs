//! The parts of the domain that no hook changes reach libvirt byte for byte. The chain has a hook that edits text and
//! one that edits the SDK's tree, and the grants are checked between them.

use std::path::Path;

use crate::fixture::{HookDirs, invocation};
use hook_host::{Chain, CollectConfig, collect};
use proptest::prelude::*;
use tokio::runtime::Runtime;

/// A VMI with the annotation of the smbios hook. The misbehaving hook does not know its text, and so adds a title.
const VMI: &str = r#"{"metadata":{"annotations":
    {"smbios.vm.kubevirt.io/baseBoardManufacturer":"Radical Edward"}},"spec":{"domain":{}}}"#;
const TITLE: &str = "<title>odd</title>";

fn chain(runtime: &Runtime) -> Chain {
    let dirs = HookDirs::new();
    dirs.put_hook("text");
    let smbios = std::fs::read(crate::fixture::rust_hook("smbios-hook")).unwrap();
    dirs.put_modified_an_hour_ago("tree", "smbios.wasm", &smbios);
    let config = CollectConfig {
        artifacts_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("untouched"),
        ..dirs.config(2)
    };
    runtime.block_on(collect(config)).unwrap()
}

/// XML in spellings that programs do not write.
fn piece() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        Just("plain".to_owned()),
        Just("&lt;b&gt; &amp; &#x41;&#66;".to_owned()),
        Just("<![CDATA[<raw> & \"]]>".to_owned()),
        Just("\r\n\t mixed \u{e9}\u{1f980} ".to_owned()),
        "[ \t\n]{0,3}",
    ];
    let attributes = prop_oneof![
        Just(String::new()),
        Just("  b = \"1\"\n\t a='2'".to_owned()),
        Just(" q:x='&quot;' y=\"'\"".to_owned()),
        Just(" z=''".to_owned()),
    ];
    let element = (text, attributes, "[ \n]{0,2}").prop_map(|(text, attributes, space)| {
        format!("<other{attributes}{space}><a />{text}</other{space}>")
    });
    prop_oneof![
        4 => element,
        1 => Just("<!-- a -- note --><!---->".replace(" -- ", " ")),
        1 => Just("<?keep  this ?>".to_owned()),
        1 => Just("<e></e><e/><e />".to_owned()),
        1 => Just("<d:x xmlns:d='urn:d' d:y=\"1\"><d:z/></d:x>".to_owned()),
        1 => "[ \t\r\n]{1,4}",
    ]
}

fn pieces() -> impl Strategy<Value = String> {
    proptest::collection::vec(piece(), 0..4).prop_map(|pieces| pieces.concat())
}

/// Whether `before` is `after` without these elements and the white space around each of them.
fn is_without(before: &str, after: &str, added: &[&str]) -> bool {
    let Some((element, rest)) = added.split_first() else {
        return before == after;
    };
    let Some((head, tail)) = after.split_once(element) else {
        return false;
    };
    let is_white_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r');
    let (start, end) = (
        head.trim_end_matches(is_white_space).len(),
        tail.trim_start_matches(is_white_space).len(),
    );
    (start..=head.len()).any(|cut| {
        (0..=tail.len() - end)
            .any(|skip| is_without(before, &[&head[..cut], &tail[skip..]].concat(), rest))
    })
}

#[test]
fn unchanged_parts_of_the_domain_keep_their_bytes() {
    let runtime = Runtime::new().unwrap();
    let chain = chain(&runtime);
    let invocation = invocation();
    let config = ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(before in pieces(), inside in pieces(), after in pieces(), end in "[ \r\n]{0,3}")| {
        let xml = format!(
            "<?xml version='1.0'  encoding=\"UTF-8\"?>\r\n<!-- top -->\n\
             <domain  type = \"kvm\"\n xmlns:q='urn:q' >{before}\
             <os ><type arch='x86_64'>hvm</type>{inside}</os><sysinfo type='smbios'><bios/></sysinfo>{after}</domain>{end}"
        );
        let defining = chain.on_define_domain(&invocation, VMI, xml.clone());
        let (hooked, runs) = runtime.block_on(defining).unwrap();
        prop_assert_eq!(runs.len(), 2);
        prop_assert!(hooked.contains("Radical Edward") && hooked.contains(TITLE), "{}", hooked);
        let (_, board) = hooked.split_once("<baseBoard").unwrap();
        let (board, _) = board.split_once("</baseBoard>").unwrap();
        let board = format!("<baseBoard{board}</baseBoard>");
        let added = [TITLE, "<smbios mode='sysinfo'/>", &board];
        prop_assert!(is_without(&xml, &hooked, &added), "{:?} {:?}", xml, hooked);
    });
}
