use super::*;

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

fn date(text: &str) -> SigningDate {
    text.parse().unwrap()
}

/// A component with a custom section of this name and content, then an empty one of another name.
fn component(name: &str, content: &str) -> Vec<u8> {
    let size = 1 + name.len() + content.len();
    let section = [
        &[0, size as u8, name.len() as u8],
        name.as_bytes(),
        content.as_bytes(),
    ]
    .concat();
    [COMPONENT, &section, &[0, 2, 1, b'x']].concat()
}

#[test]
fn dates_have_one_notation() {
    for text in [
        "2026-11-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "9999-01-01T00:00:00Z",
    ] {
        assert_eq!(date(text).to_string(), text);
    }
    for text in [
        "",
        "2026-11-01",
        "2026-11-01T00:00:00",
        "2026-11-01T00:00:00z",
        "2026-11-01t00:00:00Z",
        "2026-11-01 00:00:00Z",
        "2026-11-01T00:00:00+00:00",
        "2026-11-01T02:00:00+02:00",
        "2026-11-01T00:00:00.5Z",
        "2026-11-01T00:00:00.0Z",
        "2026-02-30T00:00:00Z",
        "2026-11-01T24:00:00Z",
        " 2026-11-01T00:00:00Z",
        "2026-11-01T00:00:00Z\n",
        "2026-11-01T00:00:00[UTC]",
    ] {
        assert!(text.parse::<SigningDate>().is_err(), "{text:?}");
    }
    assert!(date("2026-11-01T00:00:00Z") < date("2026-11-01T00:00:01Z"));
    let now = SigningDate::now();
    assert_eq!(date(&now.to_string()), now);
}

#[test]
fn a_stamp_replaces_the_dates_that_a_module_has() {
    let (first, second) = (date("2026-01-01T00:00:00Z"), date("2026-11-01T00:00:00Z"));
    for module in [
        COMPONENT.to_vec(),
        component("name", "n"),
        component(SECTION, "nonsense"),
    ] {
        let stamped = first.stamp(&module).unwrap();
        assert_eq!(SigningDate::of(&stamped), Ok(Some(first)));
        let again = second.stamp(&stamped).unwrap();
        assert_eq!(SigningDate::of(&again), Ok(Some(second)));
        assert_eq!(again.len(), stamped.len());
        // Twice the same date is the same file.
        assert_eq!(second.stamp(&again).unwrap(), again);
    }
    let twice = [component(SECTION, "2026-01-01T00:00:00Z"), {
        let other = component(SECTION, "2026-11-01T00:00:00Z");
        other[COMPONENT.len()..].to_vec()
    }]
    .concat();
    assert_eq!(SigningDate::of(&twice), Err(SigningDateError::Several));
    assert_eq!(
        SigningDate::of(&first.stamp(&twice).unwrap()),
        Ok(Some(first))
    );
}

#[test]
fn damaged_files_and_dates_are_errors() {
    assert_eq!(SigningDate::of(COMPONENT), Ok(None));
    assert_eq!(SigningDate::of(&component("name", "n")), Ok(None));
    for bytes in [
        &b""[..],
        b"\0asm",
        b"#!/bin/sh\n",
        &[COMPONENT, &[0]].concat(),
        &[COMPONENT, &[0, 9, 1]].concat(),
        &[COMPONENT, &[0, 0xff, 0xff, 0xff, 0xff, 0xff]].concat(),
        &[COMPONENT, &[0, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat(),
    ] {
        assert_eq!(
            SigningDate::of(bytes),
            Err(SigningDateError::Incomplete),
            "{bytes:?}"
        );
        assert!(SigningDate::now().stamp(bytes).is_err());
    }
    for text in ["", "yesterday", "2026-11-01T00:00:00Z ", "\u{1b}[2J"] {
        let error = SigningDate::of(&component(SECTION, text))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("is not a date such as 2026-") && !error.contains('\u{1b}'),
            "{error}"
        );
    }
    // A name that is longer than its section belongs to no date.
    let lying = [COMPONENT, &[0, 2, 0x7f, b'v']].concat();
    assert_eq!(SigningDate::of(&lying), Ok(None));
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(0_u8..=255, 0..64)) {
        let module = [COMPONENT, &bytes].concat();
        let read = SigningDate::of(&module);
        if let Ok(stamped) = SigningDate::now().stamp(&module) {
            proptest::prop_assert!(SigningDate::of(&stamped).is_ok_and(|date| date.is_some()));
            proptest::prop_assert!(!matches!(read, Err(SigningDateError::Incomplete)));
        }
    }
}
