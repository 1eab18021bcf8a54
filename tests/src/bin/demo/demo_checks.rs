//! The checks that the demo must pass.

/// One check: the expectation, and the finding if it failed.
struct Check {
    what: String,
    fault: Option<String>,
}

/// All checks, in order.
#[derive(Default)]
pub(crate) struct Checks(Vec<Check>);

impl Checks {
    /// Adds the result of a check. `found` is called only if it failed.
    pub(crate) fn check(&mut self, what: &str, held: bool, found: impl FnOnce() -> String) {
        self.0.push(Check {
            what: what.to_owned(),
            fault: (!held).then(found),
        });
    }

    /// Adds a check that passes if `outcome` is `Ok`, and returns its value.
    pub(crate) fn succeed<T>(&mut self, what: &str, outcome: anyhow::Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.check(what, true, String::new);
                Some(value)
            }
            Err(error) => {
                self.check(what, false, || format!("{error:#}"));
                None
            }
        }
    }

    /// Prints the list. True if every check passed.
    pub(crate) fn print(&self) -> bool {
        println!("\nChecks");
        for Check { what, fault } in &self.0 {
            match fault {
                None => println!("  [ok]     {what}"),
                Some(found) => println!(
                    "  [FAILED] {what}\n           {}",
                    found.replace('\n', "\n           ")
                ),
            }
        }
        let failed = self.0.iter().filter(|check| check.fault.is_some()).count();
        println!("{} of {} held", self.0.len() - failed, self.0.len());
        failed == 0 && !self.0.is_empty()
    }
}
