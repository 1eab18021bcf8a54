//! Parsing of migration parameters, and values that are refused.

use super::*;

fn with(texts: &[(&str, &str)]) -> Result<MigrationParameters, MigrationParameterError> {
    let texts = texts
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    MigrationParameters::default().with_texts(&texts.collect::<Vec<_>>())
}

#[test]
fn parameters_are_parsed_and_absent_ones_are_kept() {
    let after = with(&[("bandwidth", "1048576"), ("allow-post-copy", "true")]).unwrap();
    assert_eq!((after.bandwidth, after.allow_post_copy), (1 << 20, true));
    assert_eq!(after.max_downtime, 900);
    let before = MigrationParameters::default();
    let paths: Vec<_> = before
        .changes(&after)
        .into_iter()
        .map(|change| change.path)
        .collect();
    assert_eq!(paths, ["bandwidth", "allow-post-copy"]);
    assert_eq!(before.with_texts(&after.to_texts()).unwrap(), after);
}

#[test]
fn recorded_parameters_outside_the_range_are_parsed() {
    let sent = MigrationParameters {
        max_downtime: 0,
        parallel_connections: 1000,
        ..MigrationParameters::default()
    };
    assert_eq!(
        MigrationParameters::from_recorded_texts(&sent.to_texts()).unwrap(),
        sent
    );
    let invalid = [("max-downtime".to_owned(), "soon".to_owned())];
    assert!(MigrationParameters::from_recorded_texts(&invalid).is_err());
}

#[test]
fn values_out_of_range_and_unknown_names_are_refused() {
    for (texts, part) in [
        (
            &[("speed", "1")][..],
            "\"speed\" is not a parameter of a migration; there are bandwidth",
        ),
        (&[("bandwidth", "fast")], "bandwidth is a number from 0"),
        (&[("bandwidth", "-1")], "not \"-1\""),
        (&[("parallel-connections", "256")], "from 0 to 255"),
        (
            &[("max-downtime", "0")],
            "max-downtime is a number from 1 to 2000000",
        ),
        (
            &[("allow-post-copy", "1")],
            "allow-post-copy is true or false",
        ),
        (
            &[("bandwidth", "1"), ("bandwidth", "1")],
            "bandwidth is there twice",
        ),
    ] {
        let error = with(texts).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
