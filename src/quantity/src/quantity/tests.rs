//! Parsing, rounding and printing quantities.
use super::*;

fn value(text: &str) -> i64 {
    Quantity::parse(text).unwrap().value()
}

#[test]
fn suffixes_are_exact() {
    assert_eq!(value("128Mi"), 134_217_728);
    assert_eq!(value("4G"), 4_000_000_000);
    assert_eq!(value("0.5Gi"), 536_870_912);
    assert_eq!(value("1e9"), 1_000_000_000);
    assert_eq!(value("1E3"), 1000);
    assert_eq!(value("7Ei"), 7 << 60);
    assert_eq!(value("100k"), 100_000);
    assert_eq!(value("+5"), 5);
    assert_eq!(value(".5k"), 500);
    assert_eq!(value("9223372036854775807"), i64::MAX);
}

#[test]
fn fractions_round_up() {
    assert_eq!(value("1500m"), 2);
    assert_eq!(value("1n"), 1);
    assert_eq!(value("1e-30"), 1);
    assert_eq!(value("0.1Ki"), 103);
    assert_eq!(value("-1500m"), -1);
    assert_eq!(Quantity::parse("1000m"), Ok(Quantity::from_units(1)));
}

/// The expected values are what KubeVirt v1.9 computes.
#[test]
fn memory_bytes_of_a_decimal_are_one_less() {
    let bytes = |text: &str| Quantity::parse(text).unwrap().memory_bytes().unwrap();
    assert_eq!(bytes("2Gi"), 2 << 30);
    assert_eq!(bytes("1.5Gi"), (3 << 29) - 1);
    assert_eq!(bytes("99Ti"), 99 << 40);
    assert_eq!(bytes("100Ti"), (100 << 40) - 1);
    assert_eq!(bytes("1.5G"), 1_500_000_000);
    assert_eq!(bytes("1000m"), 0);
    assert_eq!(bytes("1234567890123456789"), 1_234_567_890_123_456_788);
    for text in ["0.0", "-1", "1n"] {
        let bytes = Quantity::parse(text).unwrap().memory_bytes();
        assert_eq!(bytes.ok(), (text == "1n").then_some(0), "{text}");
    }
    assert_eq!(Quantity::parse("1.5Gi").unwrap().integer(), None);
    assert_eq!(Quantity::parse("2k").unwrap().integer(), Some(2000));
}

/// The expected texts are those of Kubernetes' API server.
#[test]
fn canonical_texts_have_the_largest_suffix_of_the_same_kind() {
    for (text, expected) in [
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("2.25Gi", "2304Mi"),
        ("1024Mi", "1Gi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("1Ki", "1Ki"),
        ("0.1Ki", "102400m"),
        ("7Ei", "7Ei"),
        ("2000M", "2G"),
        ("1500M", "1500M"),
        ("1.5G", "1500M"),
        ("1073741824", "1073741824"),
        ("20000", "20k"),
        ("0.5", "500m"),
        ("4000m", "4"),
        ("1n", "1n"),
        ("1e3", "1e3"),
        ("1E4", "10e3"),
        ("100e-1", "10"),
        ("1e-2", "10e-3"),
        ("2E", "2E"),
        ("-1.5Gi", "-1536Mi"),
        ("0Gi", "0"),
        ("+5", "5"),
    ] {
        assert_eq!(
            Quantity::canonical_text(text).as_deref(),
            Ok(expected),
            "{text}"
        );
    }
    for text in ["", "1Gb", "8Ei"] {
        assert!(Quantity::canonical_text(text).is_err(), "{text}");
    }
}

#[test]
fn milli_values_round_up() {
    for (text, expected) in [
        ("500m", 500),
        ("2", 2000),
        ("1.5", 1500),
        ("1n", 1),
        ("-1500u", -1),
    ] {
        assert_eq!(
            Quantity::parse(text).unwrap().milli_value(),
            expected,
            "{text}"
        );
    }
    assert_eq!(Quantity::parse("7Ei").unwrap().milli_value(), i64::MAX);
}

#[test]
fn a_negative_amount_is_an_error_with_the_amount() {
    let quantity = Quantity::parse("-1Gi").unwrap();
    for error in [
        quantity.bytes().unwrap_err(),
        quantity.memory_bytes().unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "-1Gi is not a number of bytes");
        assert_eq!(error.quantity(), quantity);
    }
    assert_eq!(Quantity::parse("1Ki").unwrap().bytes(), Ok(1024));
}

#[test]
fn display_writes_the_shortest_text() {
    for text in ["-1Gi", "1536Mi", "0", "1500m", "-3n", "250u", "1000"] {
        assert_eq!(Quantity::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(Quantity::parse("1.5Gi").unwrap().to_string(), "1536Mi");
}

#[test]
fn parse_reports_overflow() {
    for text in [
        "8Ei",
        "1e19",
        "1e400",
        "9223372036854775808",
        "99999999999999999999999999999999999999999999",
    ] {
        assert!(
            matches!(Quantity::parse(text), Err(QuantityError::Overflow(_))),
            "{text}"
        );
    }
}

#[test]
fn parse_reports_malformed_text() {
    for text in [
        "",
        "-",
        ".",
        "Mi",
        "1.2.3",
        "1 Gi",
        "1gi",
        "1K",
        "0x10",
        "1e",
        "e3",
        "１",
        "1e99999999999999",
        "Gi",
    ] {
        assert!(
            matches!(Quantity::parse(text), Err(QuantityError::Malformed(_))),
            "{text}"
        );
    }
    assert!(Quantity::parse(&"1".repeat(100)).is_err());
}
