//! Outputs that are valid or nearly valid XML, and large in one respect each.

use super::*;

/// What the host makes of an output.
enum Expected {
    /// It cannot be used, for a reason that contains one of these parts.
    Bad(&'static [&'static str]),
    /// It is used.
    Good,
    /// It is used, or the budget of its check runs out on a slow machine.
    GoodOrTooExpensive,
}
use Expected::{Bad, Good, GoodOrTooExpensive};

const BUDGET: &str = "too many elements or changes";

/// The numbers below 0..n in a template, of which each `#` is one.
fn repeated(count: usize, template: &str) -> String {
    (0..count)
        .map(|number| template.replace('#', &number.to_string()))
        .collect()
}

fn rows() -> Vec<(&'static str, String, Expected)> {
    let namespaces: String = (0..50).map(|n| format!("<n xmlns:p{n}='u{n}'>")).collect();
    let twins = |count, others| {
        let video = format!("<video>{}</video>", "<model type='vga'/>".repeat(count));
        format!("<devices>{video}{}</devices>", "<a/>".repeat(others))
    };
    vec![
        (
            "equal titles",
            "<title/>".repeat(60_000),
            Bad(&["50000 elements"]),
        ),
        (
            "disks of many names",
            repeated(30_000, "<disk><target dev='v#'/></disk>"),
            Bad(&["50000 elements"]),
        ),
        (
            "disks of one name",
            "<disk><target dev='vda'/></disk>".repeat(30_000),
            Bad(&["50000 elements"]),
        ),
        (
            "120 levels",
            format!("{}{}", "<a>".repeat(120), "</a>".repeat(120)),
            Good,
        ),
        (
            "250 attributes",
            format!("<features {}/>", repeated(250, " a#='1'")),
            Good,
        ),
        (
            "a title of 3 MB",
            format!("<title>{}</title>", "A".repeat(3_000_000)),
            Good,
        ),
        (
            "comments",
            format!("<title/>{}", "<!---->".repeat(200_000)),
            Bad(&["besides its changes", BUDGET]),
        ),
        (
            "a text of many pieces",
            format!("<title>{}</title>", "a<!---->".repeat(100_000)),
            Good,
        ),
        (
            "namespaces",
            (0..40_000)
                .map(|n| format!("<a xmlns:p{}='u{n}'/>", n % 50))
                .collect(),
            GoodOrTooExpensive,
        ),
        (
            "nested namespaces",
            format!("{namespaces}{}{}", "<b/>".repeat(60_000), "</n>".repeat(50)),
            Bad(&["50000 elements"]),
        ),
        (
            "elements of many names",
            repeated(60_000, "<n#/>"),
            Bad(&["50000 elements"]),
        ),
        (
            "a second metadata",
            format!("<metadata>{}</metadata>", repeated(60_000, "<n#><q/></n#>")),
            Bad(&["50000 elements"]),
        ),
        (
            "twins of an element that libvirt reads once",
            twins(20_000, 100),
            Bad(&["several <"]),
        ),
        (
            "twins beside many siblings",
            twins(20_000, 1_000),
            Bad(&["several <"]),
        ),
        (
            "nearly as many elements as are allowed",
            "<a/>".repeat(49_900),
            GoodOrTooExpensive,
        ),
        (
            "many attributes of many elements",
            format!("<a {}/>", repeated(250, " a#='1'")).repeat(1_000),
            Bad(&["5000000 steps", BUDGET]),
        ),
        (
            "disks with mixed names",
            repeated(
                9_000,
                "<disk><target dev='v#'/></disk><disk><target dev='vda'/></disk>",
            ),
            GoodOrTooExpensive,
        ),
        (
            "a name of 1.5 MB",
            format!("<{0}></{0}>", "n".repeat(1_500_000)),
            Good,
        ),
        (
            "references",
            format!("<title>{}</title>", "&amp;".repeat(600_000)),
            Good,
        ),
        (
            "carriage returns",
            format!("<title>{}</title>", "\r".repeat(3_000_000)),
            Good,
        ),
        (
            "references in an attribute",
            format!("<a b='{}'/>", "&#9;".repeat(700_000)),
            Good,
        ),
        (
            "processing instructions",
            "<?a ?>".repeat(600_000),
            Bad(&["262144 nodes"]),
        ),
        (
            "empty CDATA sections",
            "<![CDATA[]]>".repeat(300_000),
            Bad(&["262144 nodes"]),
        ),
        (
            "only the beginnings of tags",
            "<".repeat(3_000_000),
            Bad(&["malformed XML"]),
        ),
        (
            "only the beginnings of references",
            "&".repeat(3_000_000),
            Bad(&["malformed XML"]),
        ),
    ]
}

#[tokio::test]
async fn every_output_is_checked_within_its_budget() {
    let chain = misbehaving_hook_with_call_deadline(Duration::from_secs(10)).await;
    let invocation = invocation();
    for (name, xml, expected) in rows() {
        let vmi = format!("replace\n</domain>\n{xml}</domain>");
        let defining = chain.on_define_domain(&invocation, &vmi, XML.into());
        let defined = tokio::time::timeout(TEST_TIMEOUT, defining).await.unwrap();
        match (expected, defined) {
            (Bad(parts), Err(HookError::BadOutput { message, .. })) => {
                let is_expected = parts.iter().any(|part| message.contains(part));
                assert!(is_expected, "{name}: {message}");
            }
            (Good | GoodOrTooExpensive, Ok((defined, _))) => {
                assert!(defined.contains(&xml), "{name}");
            }
            (GoodOrTooExpensive, Err(HookError::BadOutput { message, .. })) => {
                assert!(message.contains(BUDGET), "{name}: {message}");
            }
            (_, Err(other)) => panic!("{name}: {other}"),
            (_, Ok(_)) => panic!("{name}: used"),
        }
        assert!(chain.pre_start(&invocation, "{}").await.is_ok(), "{name}");
    }
}
