//! Reading and setting the parameters of a migration.
use super::*;

fn migration(parameters: &[(&str, &str)]) -> Migration {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Migration::new(parameters.iter().map(owned).collect())
}

#[test]
fn a_missing_or_unreadable_parameter_is_none() {
    let migration = migration(&[("max-downtime", "soon"), ("allow-post-copy", "yes")]);
    assert_eq!(migration.bandwidth(), None);
    assert_eq!(migration.parallel_connections(), None);
    assert_eq!(migration.completion_timeout(), None);
    assert_eq!(migration.max_downtime(), None);
    assert_eq!(migration.allows_post_copy(), None);
    assert_eq!(migration.allows_auto_converge(), None);
    assert_eq!(migration.get(MigrationParameter::MaxDowntime), Some("soon"));
}

#[test]
fn values_outside_of_the_range_are_errors_that_name_it() {
    let mut migration = migration(&[("parallel-connections", "8")]);
    for (result, expected) in [
        (
            migration.set_parallel_connections(256),
            "parallel-connections is a number from 0 to 255, not \"256\"",
        ),
        (
            migration.set_max_downtime(Duration::from_micros(900)),
            "max-downtime is a number from 1 to 2000000, not \"0\"",
        ),
        (
            migration.set_bandwidth(u64::MAX),
            "bandwidth is a number from 0 to 4503599626321920, not \"18446744073709551615\"",
        ),
        (
            migration.set_completion_timeout(1 << 32),
            "completion-timeout is a number from 0 to 4294967295, not \"4294967296\"",
        ),
        (
            migration.set(MigrationParameter::AllowPostCopy, "maybe"),
            "allow-post-copy is true or false, not \"maybe\"",
        ),
    ] {
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
    let unchanged = vec![("parallel-connections".to_owned(), "8".to_owned())];
    assert_eq!(migration.into_parameters(), unchanged);
}

#[test]
fn setters_change_what_getters_return() {
    let mut migration = migration(&[("bandwidth", "0")]);
    migration.set_bandwidth(64 << 20).unwrap();
    migration.set_parallel_connections(4).unwrap();
    migration.set_completion_timeout(0).unwrap();
    let downtime = Duration::from_millis(50);
    migration.set_max_downtime(downtime).unwrap();
    migration.allow_post_copy(true);
    migration.allow_auto_converge(false);
    assert_eq!(migration.bandwidth(), Some(64 << 20));
    assert_eq!(migration.parallel_connections(), Some(4));
    assert_eq!(migration.completion_timeout(), Some(0));
    assert_eq!(migration.max_downtime(), Some(downtime));
    assert_eq!(migration.allows_post_copy(), Some(true));
    assert_eq!(migration.allows_auto_converge(), Some(false));
    assert_eq!(migration.into_parameters().len(), 6);
}

#[test]
fn the_value_that_a_parameter_has_is_accepted_whatever_its_range() {
    let mut migration = migration(&[("parallel-connections", "300")]);
    assert!(migration.set_parallel_connections(300).is_ok());
    assert!(migration.set_parallel_connections(301).is_err());
}

#[test]
fn parameters_are_parsed_from_their_names() {
    for parameter in MigrationParameter::ALL {
        assert_eq!(parameter.to_string().parse(), Ok(*parameter));
    }
    let error = "bandwith".parse::<MigrationParameter>().unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("\"bandwith\" is not a parameter of a migration; there are bandwidth, "),
        "{text}"
    );
}
