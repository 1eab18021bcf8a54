//! Parsing of references, with the defaults of Docker Hub, and invalid ones.

use super::*;

#[test]
fn references_are_parsed_into_host_repository_tag_and_digest() {
    let digest = format!("sha256:{}", "a1".repeat(32));
    for (text, host, repository, tag, pinned) in [
        (
            "r.example/hooks",
            "r.example",
            "hooks",
            Some("latest"),
            false,
        ),
        (
            "r.example:5000/a/b_c:1.0-x",
            "r.example:5000",
            "a/b_c",
            Some("1.0-x"),
            false,
        ),
        ("localhost/h:1", "localhost", "h", Some("1"), false),
        (
            &format!("r.example/h@{digest}"),
            "r.example",
            "h",
            None,
            true,
        ),
        (
            &format!("r.example/h:1@{digest}"),
            "r.example",
            "h",
            Some("1"),
            true,
        ),
    ] {
        let reference: Reference = text.parse().unwrap();
        assert_eq!(reference.host(), host);
        assert_eq!(reference.repository(), repository);
        assert_eq!(reference.tag(), tag);
        assert_eq!(reference.digest().is_some(), pinned);
    }
}

#[test]
fn docker_hub_references_use_the_host_of_its_registry_api() {
    for (text, server, repository) in [
        ("docker.io/a", "registry-1.docker.io", "library/a"),
        ("index.docker.io/me/a", "registry-1.docker.io", "me/a"),
        ("registry-1.docker.io/me/a", "registry-1.docker.io", "me/a"),
        ("r.example/a", "r.example", "a"),
    ] {
        let reference: Reference = text.parse().unwrap();
        let actual = (reference.server(), reference.server_repository());
        assert_eq!(actual, (server, repository.to_owned()), "{text}");
    }
}

#[test]
fn invalid_references_are_errors() {
    for text in [
        "",
        "hooks",
        "hooks:1",
        "a/b",
        "r.example/",
        "r.example/A",
        "r.example/a//b",
        "r.example/../b",
        "r.example/a:",
        "r.example/a:b/c",
        "r.example:0/a",
        "r.example:x/a",
        "r.example/a@sha256:abc",
        "r.example/a@",
        "user@r.example/a",
        "r.exa mple/a",
        "r.example/a?x",
        "r.example/a#x",
        "https://r.example/a",
        "r.example/-a",
        ".r/a",
        "r.example/a:\u{1b}",
        "[::1]:5000/a",
    ] {
        assert!(text.parse::<Reference>().is_err(), "{text:?}");
    }
    assert!("r.example/".repeat(100).parse::<Reference>().is_err());
}
