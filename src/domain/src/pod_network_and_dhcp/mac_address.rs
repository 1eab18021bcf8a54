//! Ethernet (MAC) addresses.

use std::fmt;

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Parses an address as Go does: `02:00:00:00:00:01`, `02-00-00-00-00-01` or `0200.0000.0001`.
    pub fn parse(text: &str) -> Option<Mac> {
        let separator = text
            .chars()
            .find(|character| !character.is_ascii_hexdigit())?;
        let digits = match separator {
            ':' | '-' => 2,
            '.' => 4,
            _ => return None,
        };
        let mut groups = text.split(separator);
        let mut mac = [0; 6];
        for bytes in mac.chunks_mut(digits / 2) {
            let group = groups.next().filter(|group| group.len() == digits)?;
            let value = u16::from_str_radix(group, 16).ok()?.to_be_bytes();
            bytes.copy_from_slice(&value[2 - digits / 2..]);
        }
        groups.next().is_none().then_some(Mac(mac))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_spellings_of_go_are_parsed() {
        for text in ["de:ad:00:00:be:af", "DE-AD-00-00-BE-AF", "dead.0000.beaf"] {
            let mac = Mac::parse(text).map(|mac| mac.to_string());
            assert_eq!(mac.as_deref(), Some("de:ad:00:00:be:af"), "{text}");
        }
        for text in [
            "",
            "abcd",
            "de:ad",
            "de:ad:00:00:be",
            "de:ad:00:00:be:af:01",
            "de:ad:00:00:be:a",
            "+e:ad:00:00:be:af",
            "de-ad:00:00:be:af",
            "dead.0000.be:f",
            "d\u{e9}:ad:00:00:be:af",
        ] {
            assert_eq!(Mac::parse(text), None, "{text}");
        }
    }
}
