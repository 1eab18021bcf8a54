//! The checks that the demo must pass.

/// A check: the expectation, and the actual result if the check failed.
struct Check {
    expectation: String,
    failure: Option<String>,
}

/// All checks, in order.
#[derive(Default)]
pub(crate) struct Checks(Vec<Check>);

impl Checks {
    /// Adds the result of a check. `found` describes the failure; it is called only if the check failed.
    pub(crate) fn check(
        &mut self,
        expectation: &str,
        passed: bool,
        found: impl FnOnce() -> String,
    ) {
        self.0.push(Check {
            expectation: expectation.to_owned(),
            failure: (!passed).then(found),
        });
    }

    /// Adds a check that passes if `outcome` is `Ok`, and returns its value.
    pub(crate) fn succeed<T>(
        &mut self,
        expectation: &str,
        outcome: anyhow::Result<T>,
    ) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.check(expectation, true, String::new);
                Some(value)
            }
            Err(error) => {
                self.check(expectation, false, || format!("{error:#}"));
                None
            }
        }
    }

    /// Prints the list. True if every check passed.
    pub(crate) fn print(&self) -> bool {
        println!("\nChecks");
        for Check {
            expectation,
            failure,
        } in &self.0
        {
            match failure {
                None => println!("  [ok]     {expectation}"),
                Some(found) => println!(
                    "  [FAILED] {expectation}\n           {}",
                    found.replace('\n', "\n           ")
                ),
            }
        }
        let failed = self
            .0
            .iter()
            .filter(|check| check.failure.is_some())
            .count();
        println!("{} of {} held", self.0.len() - failed, self.0.len());
        failed == 0 && !self.0.is_empty()
    }
}
