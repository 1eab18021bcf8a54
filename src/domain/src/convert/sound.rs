//! The sound card.

use super::{Context, ConvertError};
use crate::spec::{Alias, DomainSpec, SoundCard};

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let Some(sound) = &context.devices().sound else {
        return Ok(());
    };
    let model = match sound.model.as_str() {
        "" => "ich9",
        model @ ("ich9" | "ac97") => model,
        model => return Err(ConvertError::refused(format!("invalid model: {model}"))),
    };
    spec.devices.sound_cards.push(SoundCard {
        alias: Some(Alias::user(&sound.name)),
        model: model.into(),
    });
    Ok(())
}
