//! Amounts of memory in libvirt's XML, such as `<memory unit='MiB'>512</memory>`.

use domain_xml::Element;

/// The prefixes of units, each 1000 or 1024 times the one before it.
const PREFIXES: &str = "kmgtpe";

/// The amount in an element in bytes; `None` if it is not a number with one of libvirt's units.
pub(crate) fn memory_amount(element: &Element) -> Option<u128> {
    let unit = element.attr("unit").unwrap_or_default();
    let amount: u64 = element.text().trim().parse().ok()?;
    Some(u128::from(amount) * unit_bytes(&unit)?)
}

/// The size of a unit in bytes. As in libvirt, case does not matter, `M` is `MiB`, and no unit is `KiB`.
fn unit_bytes(unit: &str) -> Option<u128> {
    let unit = unit.to_ascii_lowercase();
    match unit.as_str() {
        "" => return Some(1024),
        "b" | "byte" | "bytes" => return Some(1),
        _ => {}
    }
    let prefix = unit.chars().next()?;
    let power = u32::try_from(PREFIXES.find(prefix)?).ok()? + 1;
    let base: u128 = match &unit[prefix.len_utf8()..] {
        "" | "ib" => 1024,
        "b" => 1000,
        _ => return None,
    };
    Some(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_libvirts() {
        let bytes = |unit: &str| {
            let element = Element::new("memory").with_attr("unit", unit);
            memory_amount(&element.with_text(" 3\n"))
        };
        for (unit, size) in [
            ("", 1024),
            ("b", 1),
            ("byte", 1),
            ("bytes", 1),
            ("KB", 1000),
            ("k", 1024),
            ("KiB", 1024),
            ("MB", 1_000_000),
            ("M", 1 << 20),
            ("mib", 1 << 20),
            ("G", 1 << 30),
            ("GiB", 1 << 30),
            ("TB", 1_000_000_000_000),
            ("TiB", 1 << 40),
            ("PiB", 1 << 50),
            ("EiB", 1 << 60),
        ] {
            assert_eq!(bytes(unit), Some(3 * size), "{unit}");
        }
        for unit in ["ells", "mibs", "ib", "ö", "kö"] {
            assert_eq!(bytes(unit), None, "{unit}");
        }
    }

    #[test]
    fn amounts_are_numbers_of_64_bits() {
        let bytes = |text: &str| memory_amount(&Element::new("memory").with_text(text));
        assert_eq!(bytes("2"), Some(2048));
        let most = u128::from(u64::MAX) * 1024;
        assert_eq!(bytes("18446744073709551615"), Some(most));
        for text in ["", "-1", "1.5", "18446744073709551616"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
