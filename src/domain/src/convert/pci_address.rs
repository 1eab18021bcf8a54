//! Parses PCI addresses such as `0000:81:11.1`.

use crate::convert::error::ConvertError;
use crate::libvirt_spec::Address;

pub(crate) fn parse(text: &str) -> Result<Address, ConvertError> {
    let malformed = || ConvertError::invalid(format!("failed to parse pci address {text}"));
    let (domain, rest) = text.split_once(':').ok_or_else(malformed)?;
    let (bus, rest) = rest.split_once(':').ok_or_else(malformed)?;
    let (slot, function) = rest.split_once('.').ok_or_else(malformed)?;
    let digits = [(domain, 4), (bus, 2), (slot, 2), (function, 1)];
    let is_hex = |(part, length): &(&str, usize)| {
        part.len() == *length && part.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    let is_function = matches!(function.as_bytes(), [b'0'..=b'7']);
    if !(digits.iter().all(is_hex) && is_function) {
        return Err(malformed());
    }
    let hex = |part: &str| format!("0x{part}");
    Ok(Address {
        kind: "pci".into(),
        domain: hex(domain),
        bus: hex(bus),
        slot: hex(slot),
        function: hex(function),
        ..Address::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_addresses_are_errors() {
        assert!(parse("0000:81:11.1").is_ok_and(|address| address.slot == "0x11"));
        for text in [
            "",
            "81:11.1",
            "0000:81:11",
            "0000:81:1g.1",
            "00000:81:11.1",
            "0000:81:11.10",
            "0000:81:11.8",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
