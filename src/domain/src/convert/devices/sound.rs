//! The sound card.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{Alias, DomainSpec, SoundCard};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let Some(sound) = &context.devices().sound else {
        return Ok(());
    };
    let models = context.architecture.sound_models();
    if models.is_empty() {
        return Err(ConvertError::invalid(format!(
            "spec.domain.devices.sound: guests of {} have no sound card; remove it",
            context.architecture.name()
        )));
    }
    let model = models
        .iter()
        .find(|model| sound.model.is_empty() || **model == sound.model)
        .ok_or_else(|| ConvertError::invalid(format!("invalid model: {}", sound.model)))?;
    spec.devices.sound_cards.push(SoundCard {
        alias: Some(Alias::user(&sound.name)),
        model: (*model).into(),
    });
    Ok(())
}
