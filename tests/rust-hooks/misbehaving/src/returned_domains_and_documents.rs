//! The edited domains and documents that the hook returns.

use std::fmt::Write as _;

use crate::bindings::exports::virt_hook::hooks::handler::Document;

pub(crate) fn with_description(xml: &str, text: &str) -> String {
    xml.replace(
        "</domain>",
        &format!("<description>{text}</description></domain>"),
    )
}

/// The domain with the name of the VMI's node as its only `<genid>`.
pub(crate) fn with_node_name(vmi: &str, xml: &str) -> String {
    let node = vmi.split_once("\"nodeName\":\"").unwrap_or_default().1;
    let node = node.split('"').next().unwrap_or_default();
    let rest = xml.split_once("<genid>").map_or(xml, |(rest, _)| rest);
    let rest = rest.trim_end().trim_end_matches("</domain>");
    format!("{rest}<genid>{node}</genid></domain>")
}

/// The domain with 48,000 new elements, nested 120 levels deep.
pub(crate) fn with_many_elements(xml: &str) -> String {
    let chain = "<x>".repeat(120) + &"</x>".repeat(120);
    xml.replace("</domain>", &(chain.repeat(400) + "</domain>"))
}

/// The domain in which the VMI's second line is replaced by its third line.
pub(crate) fn with_replacement(vmi: &str, xml: &str) -> String {
    let mut lines = vmi.lines().skip(1);
    let mut next = || lines.next().unwrap_or_default();
    let (from, to) = (next(), next());
    xml.replace(from, to)
}

/// The XML of a "billion laughs" attack: nested entities that expand to a billion.
pub(crate) fn entity_bomb() -> String {
    let mut entities = "<!ENTITY l0 'lol'>".to_owned();
    for level in 1..10 {
        let ten = format!("&l{};", level - 1).repeat(10);
        let _ = write!(entities, "<!ENTITY l{level} '{ten}'>");
    }
    format!("<!DOCTYPE domain [{entities}]>")
}

pub(crate) fn with_deep_nesting(xml: &str) -> String {
    let depth = 100_000;
    let nest = format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    xml.replace("</domain>", &format!("{nest}</domain>"))
}

/// 30 documents of 1 MiB each, more than the host accepts from a hook.
pub(crate) fn large_documents() -> Vec<Document> {
    let text = "y".repeat(1 << 20);
    (0..30)
        .map(|_| ("user-data".to_owned(), text.clone()))
        .collect()
}
