//! Authentication challenges of a registry: `WWW-Authenticate` (RFC 9110, and Docker's token authentication).

/// An authentication scheme that the registry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    /// A bearer token from a token service.
    Bearer(TokenChallenge),
}

/// The parameters of a Bearer challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenChallenge {
    pub(crate) realm: String,
    pub(crate) service: Option<String>,
    pub(crate) scope: Option<String>,
}

impl Challenge {
    /// Parses the header's value; `None` if the scheme is neither Basic nor Bearer, or a Bearer challenge has no realm.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_and_bearer_challenges_are_parsed() {
        let header = "Bearer realm=\"https://a.example/token\",service=\"r, s\",scope=\"x:y:pull\"";
        let bearer = Challenge::Bearer(TokenChallenge {
            realm: "https://a.example/token".to_owned(),
            service: Some("r, s".to_owned()),
            scope: Some("x:y:pull".to_owned()),
        });
        assert_eq!(Challenge::parse(header), Some(bearer));
        let basic = Challenge::parse("basic realm=\"x\"");
        assert_eq!(basic, Some(Challenge::Basic));
        for invalid in [
            "",
            "Negotiate",
            "Bearer",
            "Bearer realm=\"x",
            "Bearer service=\"x\"",
        ] {
            assert_eq!(Challenge::parse(invalid), None, "{invalid}");
        }
    }
}
