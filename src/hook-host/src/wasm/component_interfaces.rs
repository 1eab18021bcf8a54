//! The interfaces that a component imports and exports.

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

/// The interfaces that a component imports and exports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComponentInterfaces {
    /// Interfaces that the component imports. An imported interface need not be granted.
    pub imports: Vec<Interface>,
    /// Interfaces that the component exports, which the host can call.
    pub exports: Vec<Interface>,
}

/// An interface with its version, such as `virt-hook:hooks/host@0.1.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name and version.
    pub name: String,
    /// Names of the functions; empty if the interface has only types.
    pub functions: Vec<String>,
}

impl ComponentInterfaces {
    pub(super) fn from_component(engine: &Engine, component: &Component) -> Self {
        let component = component.component_type();
        let imports = component.imports(engine);
        let exports = component.exports(engine);
        Self {
            imports: imports
                .map(|(name, item)| Interface::from_item(engine, name, &item.ty))
                .collect(),
            exports: exports
                .map(|(name, item)| Interface::from_item(engine, name, &item.ty))
                .collect(),
        }
    }
}

impl Interface {
    fn from_item(engine: &Engine, name: &str, item: &ComponentItem) -> Self {
        let ComponentItem::ComponentInstance(instance) = item else {
            return Self {
                name: name.to_owned(),
                functions: Vec::new(),
            };
        };
        let functions = instance
            .exports(engine)
            .filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)));
        Self {
            name: name.to_owned(),
            functions: functions.map(|(name, _)| name.to_owned()).collect(),
        }
    }
}
