//! The table that declares an element.

/// Declares element types, one row per field:
///
/// ```text
/// field: Type = PLACE => "JSONName";
/// ```
///
/// where PLACE is `attr "name"`, `text`, `child "name"` (an element, `Option`, `Vec` or a text
/// leaf) or `list "name" in "parent"`; `when set` after an attribute or leaf leaves out its zero
/// value. `named "x"` after the type gives it Go's `XMLName` in JSON, `xmlns "uri"` a
/// default namespace.
macro_rules! element {
    ($(
        $(#[$meta:meta])*
        $name:ident $(named $xml_name:literal)? $(xmlns $namespace:literal)? {
            $($(#[$field_meta:meta])* $field:ident: $ty:ty = $kind:ident $($at:literal)? $(in $parent:literal)? $(when $set:ident)? => $json:literal;)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name {
            $(#[doc = concat!("Go's `XMLName`: `", $xml_name, "` once read from XML.")] pub xml_name: $crate::xml::XmlName,)?
            $($(#[$field_meta])* #[doc = concat!("`", $json, "`.")] pub $field: $ty,)*
        }

        impl $crate::xml::WriteNode for $name {
            #[allow(unused_variables)]
            fn write_attrs(&self, writer: &mut $crate::xml::Writer) {
                $( writer.attr("xmlns", $namespace); )?
                $( $crate::xml::element!(@write_attr $kind writer, &self.$field, ($($at)?) ($($set)?)); )*
            }
            #[allow(unused_variables)]
            fn write_body(&self, writer: &mut $crate::xml::Writer) {
                $( $crate::xml::element!(@write_body $kind writer, &self.$field, ($($at)?) ($($parent)?) ($($set)?)); )*
            }
        }

        impl $crate::xml::WriteChild for $name {
            fn write_child(&self, name: &str, _when_set: bool, writer: &mut $crate::xml::Writer) {
                $crate::xml::WriteNode::write(self, name, writer);
            }
        }

        impl $crate::xml::ReadNode for $name {
            #[allow(unused_variables, clippy::match_single_binding)]
            fn read(&mut self, element: &::domain_xml::Element) -> Result<(), $crate::xml::ParseError> {
                $( $crate::xml::element!(@read_name self $xml_name); )?
                $( $crate::xml::element!(@read_own $kind element, &mut self.$field, ($($at)?)); )*
                $crate::xml::element!(@read_children self element [$(($kind $field ($($at)?) ($($parent)?)))*]);
                Ok(())
            }
        }

        impl $crate::xml::ReadChild for $name {
            fn read_child(&mut self, element: &::domain_xml::Element) -> Result<(), $crate::xml::ParseError> {
                $crate::xml::ReadNode::read(self, element)
            }
        }

        impl ::serde::Serialize for $name {
            #[allow(unused_mut)]
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use ::serde::ser::SerializeStruct as _;
                let mut object = serializer.serialize_struct(stringify!($name), 1)?;
                $( $crate::xml::element!(@xml_name object self $xml_name); )?
                $( if !$crate::xml::Wire::is_null(&self.$field) { object.serialize_field($json, &self.$field)?; } )*
                object.end()
            }
        }

        impl $crate::xml::Wire for $name {}
    )*};

    (@xml_name $object:ident $self:ident $xml_name:literal) => {
        $object.serialize_field("XMLName", &$self.xml_name)?;
    };
    (@read_name $self:ident $xml_name:literal) => {
        $self.xml_name = $crate::xml::XmlName($xml_name);
    };

    (@write_attr attr $w:ident, $value:expr, ($at:literal) ()) => {
        if let Some(text) = $crate::xml::Scalar::text($value) { $w.attr($at, &text); }
    };
    (@write_attr attr $w:ident, $value:expr, ($at:literal) (set)) => {
        if !$crate::xml::Scalar::is_zero($value) && let Some(text) = $crate::xml::Scalar::text($value) { $w.attr($at, &text); }
    };
    (@write_attr $kind:ident $w:ident, $value:expr, $at:tt $set:tt) => {};

    (@write_body text $w:ident, $value:expr, () () $set:tt) => {
        if let Some(text) = $crate::xml::Scalar::text($value) { $w.text(&text); }
    };
    (@write_body child $w:ident, $value:expr, ($at:literal) () ()) => {
        $crate::xml::WriteChild::write_child($value, $at, false, $w);
    };
    (@write_body child $w:ident, $value:expr, ($at:literal) () (set)) => {
        $crate::xml::WriteChild::write_child($value, $at, true, $w);
    };
    (@write_body list $w:ident, $value:expr, ($at:literal) ($parent:literal) ()) => {
        $w.start($parent);
        $crate::xml::WriteChild::write_child($value, $at, false, $w);
        $w.end($parent);
    };
    (@write_body attr $w:ident, $value:expr, $at:tt $parent:tt $set:tt) => {};

    (@read_own attr $e:ident, $value:expr, ($at:literal)) => { $crate::xml::read_attr($e, $at, $value)?; };
    (@read_own text $e:ident, $value:expr, ()) => { $crate::xml::read_text($e, $value)?; };
    (@read_own $kind:ident $e:ident, $value:expr, $at:tt) => {};

    (@read_children $self:ident $e:ident [$($row:tt)*]) => {
        for child in $e.children() {
            let name = $crate::xml::local_name(child);
            $( $crate::xml::element!(@read_child $self child name $row); )*
        }
    };
    (@read_child $self:ident $child:ident $name:ident (child $field:ident ($at:literal) ())) => {
        if $name == $at { $crate::xml::ReadChild::read_child(&mut $self.$field, $child)?; continue; }
    };
    (@read_child $self:ident $child:ident $name:ident (list $field:ident ($at:literal) ($parent:literal))) => {
        if $name == $parent {
            for entry in $child.children().filter(|entry| $crate::xml::local_name(entry) == $at) {
                $crate::xml::ReadChild::read_child(&mut $self.$field, entry)?;
            }
            continue;
        }
    };
    (@read_child $self:ident $child:ident $name:ident $row:tt) => {};
}
pub(crate) use element;
