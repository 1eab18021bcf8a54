//! Errors in which several cases end, each of which is printed once.

use super::case_result::{CaseOutcome, CaseResult};

/// An error, and the failed cases that end in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SharedError<'a> {
    pub(super) error: &'a str,
    pub(super) cases: Vec<&'a str>,
}

/// The errors of two failed cases or more, in the order of the cases.
pub(super) fn find(cases: &[CaseResult]) -> Vec<SharedError<'_>> {
    let mut errors: Vec<SharedError<'_>> = Vec::new();
    let failed = cases
        .iter()
        .filter(|case| case.outcome == CaseOutcome::Failed);
    for case in failed {
        let Some(error) = case.unexpected_error.as_deref() else {
            continue;
        };
        match errors.iter_mut().find(|known| known.error == error) {
            Some(known) => known.cases.push(&case.name),
            None => errors.push(SharedError {
                error,
                cases: vec![&case.name],
            }),
        }
    }
    errors.retain(|error| error.cases.len() > 1);
    errors
}

impl SharedError<'_> {
    /// Whether the case ends in this error.
    pub(super) fn is_error_of(&self, case: &CaseResult) -> bool {
        case.unexpected_error.as_deref() == Some(self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, error: Option<&str>) -> CaseResult {
        CaseResult {
            name: name.to_owned(),
            outcome: CaseOutcome::Failed,
            differences: Vec::new(),
            not_written: None,
            note: None,
            unexpected_error: error.map(str::to_owned),
            is_idle: false,
        }
    }

    #[test]
    fn equal_errors_of_several_cases_are_joined() {
        let cases = [
            case("a", Some("denied")),
            case("b", None),
            case("c", Some("other")),
            case("d", Some("denied")),
        ];
        let shared = find(&cases);
        let denied = SharedError {
            error: "denied",
            cases: vec!["a", "d"],
        };
        assert_eq!(shared, [denied]);
        let is_shared = cases
            .iter()
            .map(|case| shared.iter().any(|error| error.is_error_of(case)));
        assert_eq!(is_shared.collect::<Vec<_>>(), [true, false, false, true]);
    }
}
