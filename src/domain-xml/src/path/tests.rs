//! Valid and invalid path patterns.

use super::*;

#[test]
fn paths_of_the_documentation_parse() {
    for path in [
        "/domain/sysinfo/**",
        "devices/disk[target/@dev='vda']/driver/@queues",
        "devices/controller[@type='scsi'][@index=\"0\"]",
        "qemu:commandline/qemu:*",
        "os/boot[2]/@dev",
        "@type",
        "**/alias/@*",
        "*",
        "cpu[model='Haswell']",
        "description[text()='x']",
    ] {
        assert_eq!(parse_pattern(path).unwrap().to_string(), path);
    }
}

#[test]
fn errors_name_the_column_and_the_expected_syntax() {
    let error_text = |path: &str| parse_pattern(path).unwrap_err().to_string();
    assert_eq!(
        error_text("/domain//os"),
        "path `/domain//os`, column 9: expected the name of an element, `*`, `**` or `@`"
    );
    assert_eq!(
        error_text("disk[@dev='vda'"),
        "path `disk[@dev='vda'`, column 16: expected `]`"
    );
    assert_eq!(
        error_text("disk[@dev=vda]"),
        "path `disk[@dev=vda]`, column 11: expected a value in quotes"
    );
    assert_eq!(
        error_text("disk[@dev='vda]"),
        "path `disk[@dev='vda]`, column 11: expected a value whose quotes are closed"
    );
    assert_eq!(
        error_text("disk[0]"),
        "path `disk[0]`, column 6: expected a position from 1"
    );
    assert_eq!(
        error_text("os/1st"),
        "path `os/1st`, column 4: `1st` is not a name"
    );
    assert_eq!(
        error_text("disk[*]"),
        "path `disk[*]`, column 6: expected a name without `*` in a predicate"
    );
    assert_eq!(
        error_text("a/@b/c"),
        "path `a/@b/c`, column 5: expected `/`, `[` or the end of the path"
    );
    for bad in [
        "", "/", "/@x", "a/", "a[", "a[]", "a]", "a b", "q*", "a[b/]", "a[@]", "a[=''] ", "a[1",
        "é/[", "***",
    ] {
        assert!(parse_pattern(bad).is_err(), "{bad}");
    }
    assert!(parse_pattern(&"a/".repeat(1000)).is_err());
}
