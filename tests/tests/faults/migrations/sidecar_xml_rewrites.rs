//! The XML rewrites of the rows' gRPC sidecars.

use regex::{Captures, Regex};

/// The domain as Go's encoding/xml marshals it from types: other quotes, no white space, no empty elements,
/// numbers in decimal.
pub(crate) fn rewrite_types(xml: &str) -> String {
    let replace =
        |pattern: &str, text: &str, with: &dyn Fn(&Captures<'_>) -> String| match Regex::new(
            pattern,
        ) {
            Ok(pattern) => pattern.replace_all(text, with).into_owned(),
            Err(_) => text.to_owned(),
        };
    let xml = replace(r"='([^'<]*)'", xml, &|captures| {
        format!("=\"{}\"", &captures[1])
    });
    let xml = replace(r">\s+<", &xml, &|_| "><".to_owned());
    let xml = replace(r"<([\w:]+)([^<>]*?)\s*/>", &xml, &|captures| {
        format!("<{0}{1}></{0}>", &captures[1], &captures[2])
    });
    replace("=\"0x([0-9a-f]+)\"", &xml, &|captures| {
        let number = u64::from_str_radix(&captures[1], 16).unwrap_or_default();
        format!("=\"{number}\"")
    })
}

/// The domain with one more device.
pub(crate) fn append_element(xml: &str) -> String {
    let device = "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>";
    xml.replacen("</devices>", &format!("{device}</devices>"), 1)
}
