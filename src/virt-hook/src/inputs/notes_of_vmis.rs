//! Notes about the VMIs of one or several files: each is told once, however many VMIs have it.

use super::vm_manifest::{Importance, Note};
use crate::output;

/// Notes with the places of their VMIs.
#[derive(Debug, Default)]
pub(crate) struct NotesOfVmis {
    merged: Vec<MergedNote>,
}

#[derive(Debug)]
struct MergedNote {
    note: Note,
    /// The file, and the VMI if the file has several.
    first_place: String,
    /// Number of other VMIs with the note.
    others: usize,
}

impl NotesOfVmis {
    /// Adds the notes about the VMI at a place.
    pub(super) fn add<'a>(&mut self, place: &str, notes: impl IntoIterator<Item = &'a Note>) {
        for note in notes {
            let is_same = |known: &MergedNote| {
                let known = &known.note;
                known.text == note.text || (note.subject.is_some() && known.subject == note.subject)
            };
            match self.merged.iter_mut().find(|known| is_same(known)) {
                Some(known) => known.others += 1,
                None => self.merged.push(MergedNote {
                    note: note.clone(),
                    first_place: place.to_owned(),
                    others: 0,
                }),
            }
        }
    }

    /// Prints the notes by importance. Where a VMI comes from is no warning.
    pub(crate) fn tell(mut self) {
        self.merged.sort_by_key(|merged| merged.note.importance);
        for merged in &self.merged {
            match merged.note.importance {
                Importance::Origin => output::note(&merged.text()),
                Importance::Differs | Importance::Mistake | Importance::Unseen => {
                    output::warn(&merged.text());
                }
            }
        }
    }
}

impl MergedNote {
    fn text(&self) -> String {
        let (place, text) = (&self.first_place, &self.note.text);
        match self.others {
            0 => format!("{place}: {text}"),
            others => format!("{place} and {others} more: {text}"),
        }
    }
}
