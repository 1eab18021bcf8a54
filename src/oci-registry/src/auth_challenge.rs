//! What a registry asks for with `WWW-Authenticate` (RFC 9110, and Docker's token authentication).

/// A challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    /// A token of a service.
    Bearer(TokenChallenge),
}

/// A Bearer challenge of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenChallenge {
    pub(crate) realm: String,
    pub(crate) service: Option<String>,
    pub(crate) scope: Option<String>,
}

impl Challenge {
    /// Reads the header; `None` if it is neither kind.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut values = [None, None, None];
        let mut rest = rest;
        while let Some((name, value)) = rest.split_once("=\"") {
            let (value, after) = value.split_once('"')?;
            let name = name.trim_matches([',', ' ']);
            let index = ["realm", "service", "scope"]
                .iter()
                .position(|known| name.eq_ignore_ascii_case(known));
            if let Some(index) = index {
                values[index] = Some(value.to_owned());
            }
            rest = after;
        }
        let [realm, service, scope] = values;
        Some(Self::Bearer(TokenChallenge {
            realm: realm?,
            service,
            scope,
        }))
    }
}

/// Percent-encodes a value of a query.
pub(crate) fn encoded(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            other => text += &format!("%{other:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let header = "Bearer realm=\"https://a.example/token\",service=\"r, s\",scope=\"x:y:pull\"";
        let bearer = Challenge::Bearer(TokenChallenge {
            realm: "https://a.example/token".to_owned(),
            service: Some("r, s".to_owned()),
            scope: Some("x:y:pull".to_owned()),
        });
        assert_eq!(Challenge::parse(header), Some(bearer));
        let basic = Challenge::parse("basic realm=\"x\"");
        assert_eq!(basic, Some(Challenge::Basic));
        for wrong in [
            "",
            "Negotiate",
            "Bearer",
            "Bearer realm=\"x",
            "Bearer service=\"x\"",
        ] {
            assert_eq!(Challenge::parse(wrong), None, "{wrong}");
        }
        assert_eq!(encoded("a/b:c d"), "a%2Fb%3Ac%20d");
    }
}
