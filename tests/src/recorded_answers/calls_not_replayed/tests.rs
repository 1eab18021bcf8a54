#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use super::*;
use crate::recorded_answers::{allowed_outcomes, calls};

/// What the reasons of 05-reboot, 05-softreboot-agent and 09-guestpoweroff say.
#[test]
fn answers_that_are_said_to_repeat_others_do() {
    let outcome = |topic: &str, index: usize| calls(topic).unwrap()[index].clone();
    for (topic, index, like) in [
        ("05-reboot", 2, 2),
        ("05-reboot", 4, 2),
        ("05-reboot", 5, 17),
        ("05-softreboot-agent", 2, 17),
    ] {
        let (repeated, recorded) = (outcome(topic, index).outcome, outcome("02-answers", like));
        let found = allowed_outcomes::compare(&recorded, &repeated, &mut BTreeSet::new()).unwrap();
        assert!(found.is_empty(), "{topic} call {index}: {found:#?}");
    }
    let Outcome::GrpcError(poweroff) = outcome("09-guestpoweroff", 1).outcome else {
        panic!("no error");
    };
    let Outcome::Refused(thaw, _) = outcome("03-freeze", 17).outcome else {
        panic!("no refusal");
    };
    let error =
        "(Code=55, Domain=20, Message='Requested operation is not valid: domain is not running')";
    assert!(poweroff.ends_with(error) && thaw.ends_with(error));
}
