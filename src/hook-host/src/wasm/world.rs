//! What a module asks for and what it offers, by name.

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

/// What a component imports and exports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct World {
    /// What it can ask the host for; asking is another matter, and so is being answered.
    pub imports: Vec<Interface>,
    /// What the host can call.
    pub exports: Vec<Interface>,
}

/// An interface with its version, as `kubevirt:hooks/host@0.1.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its functions; empty where it only has types.
    pub functions: Vec<String>,
}

impl World {
    pub(super) fn of(engine: &Engine, component: &Component) -> Self {
        let component = component.component_type();
        let imports = component.imports(engine);
        let exports = component.exports(engine);
        Self {
            imports: imports
                .map(|(name, item)| Interface::of(engine, name, &item.ty))
                .collect(),
            exports: exports
                .map(|(name, item)| Interface::of(engine, name, &item.ty))
                .collect(),
        }
    }

    /// Whether a function of an interface can be asked for.
    #[must_use]
    pub fn imports_function(&self, interface: &str, function: &str) -> bool {
        self.imports.iter().any(|import| {
            import.name == interface && import.functions.iter().any(|name| name == function)
        })
    }
}

impl Interface {
    fn of(engine: &Engine, name: &str, item: &ComponentItem) -> Self {
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
