//! An event with number and time, and the written form: one flat object, read without a detour.

use crate::{event::Event, units::Nanoseconds};

/// An event with number and time.
///
/// With serde, one object: `number`, `at`, `occurred_at` if present, and `event`, the kind; the event's own fields follow. The
/// four keys stand first, so a reader knows the kind before the fields.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberedEvent {
    /// Counted from 1.
    pub number: u64,
    /// The time of the last `poll`.
    pub at: Nanoseconds,
    /// The time of the reported GPU action, if the event is part of a report of the GPU.
    pub occurred_at: Option<Nanoseconds>,
    /// The event.
    pub event: Event,
}

#[cfg(feature = "serde")]
mod written {
    use core::fmt::{self, Display};

    use serde::{
        Deserialize, Deserializer, Serialize, Serializer,
        de::{
            DeserializeSeed, EnumAccess, Error, IgnoredAny, MapAccess, VariantAccess, Visitor,
            value::MapAccessDeserializer,
        },
        forward_to_deserialize_any,
        ser::{Impossible, SerializeMap, SerializeStructVariant},
    };

    use super::{Event, NumberedEvent};

    impl Serialize for NumberedEvent {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry("number", &self.number)?;
            map.serialize_entry("at", &self.at)?;
            if let Some(occurred_at) = self.occurred_at {
                map.serialize_entry("occurred_at", &occurred_at)?;
            }
            self.event.serialize(Fields(&mut map))?;
            map.end()
        }
    }

    impl<'de> Deserialize<'de> for NumberedEvent {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(Line)
        }
    }

    /// Reads the common keys, and, knowing the kind, the event.
    struct Line;

    impl<'de> Visitor<'de> for Line {
        type Value = NumberedEvent;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an event: `number`, `at` and `event`, and then its fields")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NumberedEvent, A::Error> {
            let (mut number, mut at, mut occurred_at) = (None, None, None);
            loop {
                match map.next_key::<Key>()? {
                    Some(Key::Number) => number = Some(map.next_value()?),
                    Some(Key::At) => at = Some(map.next_value()?),
                    Some(Key::OccurredAt) => occurred_at = Some(map.next_value()?),
                    Some(Key::Event) => break,
                    Some(Key::Other) => drop(map.next_value::<IgnoredAny>()?),
                    None => return Err(A::Error::missing_field("event")),
                }
            }
            // Not behind the kind, where the fields of the event begin.
            let number = number.ok_or_else(|| A::Error::missing_field("number"))?;
            let at = at.ok_or_else(|| A::Error::missing_field("at"))?;
            let event = Event::deserialize(Kind(map))?;
            Ok(NumberedEvent { number, at, occurred_at, event })
        }
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Key {
        Number,
        At,
        OccurredAt,
        Event,
        #[serde(other)]
        Other,
    }

    /// The rest of a line, from the value of `event` on: an enum's variant with the fields.
    struct Kind<A>(A);

    impl<'de, A: MapAccess<'de>> Deserializer<'de> for Kind<A> {
        type Error = A::Error;

        fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
            visitor.visit_enum(self)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
            seq tuple tuple_struct map struct enum identifier ignored_any
        }
    }

    impl<'de, A: MapAccess<'de>> EnumAccess<'de> for Kind<A> {
        type Error = A::Error;
        type Variant = Self;

        fn variant_seed<V: DeserializeSeed<'de>>(mut self, seed: V) -> Result<(V::Value, Self), A::Error> {
            Ok((self.0.next_value_seed(seed)?, self))
        }
    }

    impl<'de, A: MapAccess<'de>> VariantAccess<'de> for Kind<A> {
        type Error = A::Error;

        fn unit_variant(self) -> Result<(), A::Error> {
            IgnoredAny::deserialize(MapAccessDeserializer::new(self.0)).map(drop)
        }

        fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, A::Error> {
            visitor.visit_map(self.0)
        }

        fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
            seed.deserialize(MapAccessDeserializer::new(self.0))
        }

        fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, A::Error> {
            Err(A::Error::custom("an event has named fields"))
        }
    }

    /// Writes an event into an open object: the kind, and the fields.
    struct Fields<'a, M>(&'a mut M);

    impl<M: SerializeMap> SerializeStructVariant for Fields<'_, M> {
        type Ok = ();
        type Error = M::Error;

        fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), M::Error> {
            self.0.serialize_entry(key, value)
        }

        fn end(self) -> Result<(), M::Error> {
            Ok(())
        }
    }

    /// An event is an enum of unit and struct variants, and nothing else.
    fn refuse<E: serde::ser::Error>(what: impl Display) -> E {
        E::custom(format_args!("an event is not {what}"))
    }

    macro_rules! refuse {
        ($($name:ident($($of:ty),*) -> $ok:ty;)*) => {
            $(fn $name(self, $(_: $of),*) -> Result<$ok, M::Error> {
                Err(refuse(stringify!($name)))
            })*
        };
    }

    impl<'a, M: SerializeMap> Serializer for Fields<'a, M> {
        type Ok = ();
        type Error = M::Error;
        type SerializeSeq = Impossible<(), M::Error>;
        type SerializeTuple = Impossible<(), M::Error>;
        type SerializeTupleStruct = Impossible<(), M::Error>;
        type SerializeTupleVariant = Impossible<(), M::Error>;
        type SerializeMap = Impossible<(), M::Error>;
        type SerializeStruct = Impossible<(), M::Error>;
        type SerializeStructVariant = Self;

        fn serialize_unit_variant(self, _: &'static str, _: u32, kind: &'static str) -> Result<(), M::Error> {
            self.0.serialize_entry("event", kind)
        }

        fn serialize_struct_variant(
            self,
            _: &'static str,
            _: u32,
            kind: &'static str,
            _: usize,
        ) -> Result<Self, M::Error> {
            self.0.serialize_entry("event", kind)?;
            Ok(self)
        }

        refuse! {
            serialize_bool(bool) -> ();
            serialize_i8(i8) -> ();
            serialize_i16(i16) -> ();
            serialize_i32(i32) -> ();
            serialize_i64(i64) -> ();
            serialize_u8(u8) -> ();
            serialize_u16(u16) -> ();
            serialize_u32(u32) -> ();
            serialize_u64(u64) -> ();
            serialize_f32(f32) -> ();
            serialize_f64(f64) -> ();
            serialize_char(char) -> ();
            serialize_str(&str) -> ();
            serialize_bytes(&[u8]) -> ();
            serialize_none() -> ();
            serialize_unit() -> ();
            serialize_unit_struct(&'static str) -> ();
            serialize_seq(Option<usize>) -> Self::SerializeSeq;
            serialize_tuple(usize) -> Self::SerializeTuple;
            serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
            serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
            serialize_map(Option<usize>) -> Self::SerializeMap;
            serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        }

        fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<(), M::Error> {
            Err(refuse("an option"))
        }

        fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, _: &T) -> Result<(), M::Error> {
            Err(refuse("a newtype"))
        }

        fn serialize_newtype_variant<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &T,
        ) -> Result<(), M::Error> {
            Err(refuse("a newtype"))
        }
    }
}
