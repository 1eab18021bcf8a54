//! The states that the source and the target have reported in a row, and their logs.

use std::fs;

use tests::binaries::target_dir;
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::LauncherFixture;

use super::migration_row_run::MigrationRowRun;

impl MigrationRowRun {
    /// The source's notifications of this row, and the target's.
    pub(crate) fn events(&self) -> [Vec<Event>; 2] {
        let Some(pods) = &self.pods else {
            return [Vec::new(), Vec::new()];
        };
        let events_of_row = |launcher: &LauncherFixture, first_event_index| {
            let events = launcher.handler.events();
            events.into_iter().skip(first_event_index).collect()
        };
        [
            events_of_row(&pods.source, self.first_event_index[0]),
            events_of_row(&pods.target, self.first_event_index[1]),
        ]
    }

    /// The states that both launchers have reported to virt-handler, without repetitions.
    pub(crate) fn current_states(&self) -> String {
        let [source, target] = self.events().map(|events| {
            let mut states: Vec<String> = events.iter().map(Event::state).collect();
            states.retain(|state| !state.is_empty());
            states.dedup();
            states.join(", ")
        });
        format!("[{source}] [{target}]")
    }

    /// Saves the states that were reported until now, before the second migration reports more.
    pub(crate) fn save_reported_states(&mut self) {
        self.reported_states = Some(self.current_states());
    }

    pub(crate) fn reported_states(&self) -> String {
        self.reported_states
            .clone()
            .unwrap_or_else(|| self.current_states())
    }

    pub(crate) fn save_logs(&self, title: &str, error: &str) {
        let Some(pods) = &self.pods else { return };
        let name = title.replace(|character: char| !character.is_ascii_alphanumeric(), "-");
        let directory = target_dir().join("faults");
        let sides = [("source", &pods.source), ("target", &pods.target)].map(|(side, launcher)| {
            format!(
                "==== {side}\n{}\n{}",
                launcher.handler.history(),
                launcher.pod.log()
            )
        });
        let path = directory.join(format!("{name}.log"));
        let text = format!("{error}\n\n{}\n{}", sides[0], sides[1]);
        if fs::create_dir_all(&directory).is_ok() && fs::write(&path, text).is_ok() {
            println!("     evidence in {}", path.display());
        }
    }

    pub(crate) fn suppress_logs(&mut self) {
        if let Some(pods) = &mut self.pods {
            pods.source.pod.suppress_log();
            pods.target.pod.suppress_log();
        }
    }
}
