//! `element!`: declares typed XML elements by a table.

/// Declares element types, one row per field. The crate that uses the macro has to depend on `domain-xml` and `serde`.
///
/// ```text
/// field: Type = PLACE => "JSONName";
/// ```
///
/// PLACE is `attr "name"`, `text`, `child "name"` (an element, `Option`, `Vec` or an element with only
/// text) or `list "name" in "parent"`. `when set` after an attribute or child omits its zero value from the XML.
/// `named "x"` after the type writes Go's `XMLName` to JSON; `xmlns "uri"` declares a default namespace.
#[macro_export]
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
            $(#[doc = concat!("Go's `XMLName`: `", $xml_name, "` once read from XML.")] pub xml_name: $crate::typed_xml::XmlName,)?
            $($(#[$field_meta])* #[doc = concat!("`", $json, "`.")] pub $field: $ty,)*
        }

        impl $crate::typed_xml::WriteElement for $name {
            #[allow(unused_variables)]
            fn write_attrs(&self, writer: &mut $crate::typed_xml::XmlWriter) {
                $( writer.attr("xmlns", $namespace); )?
                $( $crate::element!(@write_attr $kind writer, &self.$field, ($($at)?) ($($set)?)); )*
            }
            #[allow(unused_variables)]
            fn write_content(&self, writer: &mut $crate::typed_xml::XmlWriter) {
                $( $crate::element!(@write_content $kind writer, &self.$field, ($($at)?) ($($parent)?) ($($set)?)); )*
            }
        }

        impl $crate::typed_xml::WriteChild for $name {
            fn write_child(&self, name: &str, _omit_empty: bool, writer: &mut $crate::typed_xml::XmlWriter) {
                $crate::typed_xml::WriteElement::write(self, name, writer);
            }
        }

        impl $crate::typed_xml::ReadElement for $name {
            #[allow(unused_variables, clippy::match_single_binding)]
            fn read(&mut self, element: &::domain_xml::Element) -> Result<(), $crate::typed_xml::ParseError> {
                $( $crate::element!(@read_name self $xml_name); )?
                $( $crate::element!(@read_own $kind element, &mut self.$field, ($($at)?)); )*
                $crate::element!(@read_children self element [$(($kind $field ($($at)?) ($($parent)?)))*]);
                Ok(())
            }
        }

        impl $crate::typed_xml::ReadChild for $name {
            fn read_child(&mut self, element: &::domain_xml::Element) -> Result<(), $crate::typed_xml::ParseError> {
                $crate::typed_xml::ReadElement::read(self, element)
            }
        }

        impl ::serde::Serialize for $name {
            #[allow(unused_mut)]
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use ::serde::ser::SerializeStruct as _;
                let mut object = serializer.serialize_struct(stringify!($name), 1)?;
                $( $crate::element!(@xml_name object self $xml_name); )?
                $( if !$crate::typed_xml::JsonField::is_null(&self.$field) { object.serialize_field($json, &self.$field)?; } )*
                object.end()
            }
        }

        impl $crate::typed_xml::JsonField for $name {}
    )*};

    (@xml_name $object:ident $self:ident $xml_name:literal) => {
        $object.serialize_field("XMLName", &$self.xml_name)?;
    };
    (@read_name $self:ident $xml_name:literal) => {
        $self.xml_name = $crate::typed_xml::XmlName::new($xml_name);
    };

    (@write_attr attr $w:ident, $value:expr, ($at:literal) ()) => {
        if let Some(text) = $crate::typed_xml::Scalar::text($value) { $w.attr($at, &text); }
    };
    (@write_attr attr $w:ident, $value:expr, ($at:literal) (set)) => {
        if !$crate::typed_xml::Scalar::is_zero($value) && let Some(text) = $crate::typed_xml::Scalar::text($value) { $w.attr($at, &text); }
    };
    (@write_attr $kind:ident $w:ident, $value:expr, $at:tt $set:tt) => {};

    (@write_content text $w:ident, $value:expr, () () $set:tt) => {
        if let Some(text) = $crate::typed_xml::Scalar::text($value) { $w.text(&text); }
    };
    (@write_content child $w:ident, $value:expr, ($at:literal) () ()) => {
        $crate::typed_xml::WriteChild::write_child($value, $at, false, $w);
    };
    (@write_content child $w:ident, $value:expr, ($at:literal) () (set)) => {
        $crate::typed_xml::WriteChild::write_child($value, $at, true, $w);
    };
    (@write_content list $w:ident, $value:expr, ($at:literal) ($parent:literal) ()) => {
        $w.start($parent);
        $crate::typed_xml::WriteChild::write_child($value, $at, false, $w);
        $w.end($parent);
    };
    (@write_content attr $w:ident, $value:expr, $at:tt $parent:tt $set:tt) => {};

    (@read_own attr $e:ident, $value:expr, ($at:literal)) => { $crate::typed_xml::read_attr($e, $at, $value)?; };
    (@read_own text $e:ident, $value:expr, ()) => { $crate::typed_xml::read_text($e, $value)?; };
    (@read_own $kind:ident $e:ident, $value:expr, $at:tt) => {};

    (@read_children $self:ident $e:ident [$($row:tt)*]) => {
        for child in $e.children() {
            let name = $crate::typed_xml::local_name(child);
            $( $crate::element!(@read_child $self child name $row); )*
        }
    };
    (@read_child $self:ident $child:ident $name:ident (child $field:ident ($at:literal) ())) => {
        if $name == $at { $crate::typed_xml::ReadChild::read_child(&mut $self.$field, $child)?; continue; }
    };
    (@read_child $self:ident $child:ident $name:ident (list $field:ident ($at:literal) ($parent:literal))) => {
        if $name == $parent {
            for entry in $child.children().filter(|entry| $crate::typed_xml::local_name(entry) == $at) {
                $crate::typed_xml::ReadChild::read_child(&mut $self.$field, entry)?;
            }
            continue;
        }
    };
    (@read_child $self:ident $child:ident $name:ident $row:tt) => {};
}
