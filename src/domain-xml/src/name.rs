//! Qualified names of elements and attributes: their parts, and which are valid.

/// `("qemu", "arg")` of `qemu:arg`; an empty prefix if there is none.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

/// The prefix that an attribute declares: `q` for `xmlns:q`, empty for `xmlns`.
pub(crate) fn declared_prefix(attribute: &str) -> Option<&str> {
    match attribute.strip_prefix("xmlns")? {
        "" => Some(""),
        rest => rest.strip_prefix(':'),
    }
}

/// Whether `name` is a valid name of an element or attribute: a qualified name of Namespaces in XML 1.0.
///
/// libvirt's parser accepts a colon elsewhere, but keeps it in the local name: `:uid` is not `uid` to any reader.
pub(crate) fn is_valid(name: &str) -> bool {
    match name.split_once(':') {
        Some((prefix, local)) => is_valid_part(prefix) && is_valid_part(local),
        None => is_valid_part(name),
    }
}

/// Whether this is a prefix or a local name.
pub(crate) fn is_valid_part(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(starts_name) && characters.all(continues)
}

fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic()
        || c == '_'
        || matches!(c as u32,
            0xC0..=0xD6 | 0xD8..=0xF6 | 0xF8..=0x2FF | 0x370..=0x37D | 0x37F..=0x1FFF
            | 0x200C..=0x200D | 0x2070..=0x218F | 0x2C00..=0x2FEF | 0x3001..=0xD7FF
            | 0xF900..=0xFDCF | 0xFDF0..=0xFFFD | 0x10000..=0xEFFFF)
}

/// Whether a prefix or a local name may have this character after its first.
pub(crate) fn continues(c: char) -> bool {
    starts_name(c)
        || c.is_ascii_digit()
        || matches!(c, '-' | '.')
        || matches!(c as u32, 0xB7 | 0x300..=0x36F | 0x203F..=0x2040)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_stands_once_and_between_names() {
        for valid in ["a", "a:b", "ä:_b", "a-1:b.2"] {
            assert!(is_valid(valid), "{valid}");
        }
        for invalid in ["", ":", ":a", "a:", "a::b", "a:b:c", "a:1", "1:a"] {
            assert!(!is_valid(invalid), "{invalid}");
        }
    }
}
