//! Which token services get credentials, and the scopes of tokens.

use super::*;

fn request<'a>(
    host: &'a str,
    plain_http: bool,
    credentials: Option<&'a Credentials>,
    token_hosts: &'a [String],
) -> TokenRequest<'a> {
    TokenRequest {
        origin: "https://registry",
        host,
        repository: "team/hooks",
        can_push: true,
        plain_http,
        credentials,
        token_hosts,
    }
}

#[test]
fn credentials_are_sent_only_to_the_registrys_host_and_to_allowed_hosts() {
    let alice = Credentials {
        username: "alice".into(),
        password: "secret".into(),
    };
    let allowed = ["sso.example".to_owned()];
    let check = |host, plain, credentials, hosts, realm: &str| {
        request(host, plain, credentials, hosts).check_realm(realm)
    };
    for (host, plain, realm) in [
        ("r.example", false, "https://r.example/token"),
        ("r.example:5000", false, "https://R.example:8443/token"),
        ("localhost:5000", true, "http://localhost:6000/token"),
        (
            "registry-1.docker.io",
            false,
            "https://auth.docker.io/token",
        ),
        ("r.example", false, "https://sso.example/token"),
    ] {
        check(host, plain, Some(&alice), &allowed, realm).unwrap();
    }
    for (host, plain, realm, part) in [
        (
            "r.example",
            false,
            "http://r.example/token",
            "not an https address",
        ),
        (
            "r.example",
            true,
            "http://evil.example/token",
            "not an https address",
        ),
        (
            "r.example",
            true,
            "http://sso.example/token",
            "not an https address",
        ),
        (
            "r.example",
            false,
            "https://evil.example/token",
            "another host, \"evil.example\"",
        ),
        (
            "r.example",
            false,
            "https://r.example.evil.example/",
            "another host",
        ),
        (
            "evil.example",
            false,
            "https://auth.docker.io/token",
            "another host",
        ),
        (
            "r.example",
            false,
            "https://r.example@evil.example/",
            "not an https address",
        ),
        (
            "r.example",
            false,
            "https://r.example/?x=",
            "not an https address",
        ),
        (
            "r.example",
            false,
            "ftp://r.example/",
            "not an https address",
        ),
        ("r.example", false, "/token", "not an https address"),
        ("r.example", false, "", "not an https address"),
    ] {
        let error = check(host, plain, Some(&alice), &allowed, realm)
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{realm}: {error}");
    }
    // Without credentials any https host is allowed.
    check("r.example", false, None, &[], "https://evil.example/token").unwrap();
}

#[test]
fn a_token_is_requested_for_the_access_that_is_needed_whatever_the_challenge_asks_for() {
    let mut request = request("r.example", false, None, &[]);
    for (can_push, expected) in [
        (false, "repository:team/hooks:pull"),
        (true, "repository:team/hooks:pull,push"),
    ] {
        request.can_push = can_push;
        for challenged in [
            None,
            Some(""),
            Some("aws"),
            Some("registry:catalog:*"),
            Some("repository:team/hooks:pull"),
            Some("repository:team/hooks:*"),
            Some("repository:team/hooks:delete,push"),
            Some("registry:catalog:* repository:team/hooks:delete"),
        ] {
            assert_eq!(
                request.scope(challenged).unwrap(),
                expected,
                "{challenged:?}"
            );
        }
        for other in [
            "repository:team/other:pull",
            "repository:team/hooks:pull repository:x:push",
            "repository:team/hooks/../x:pull",
        ] {
            let error = request.scope(Some(other)).unwrap_err().to_string();
            assert!(error.contains("another repository"), "{error}");
        }
    }
}

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
