//! How a type is read from a value of a scenario file.
//!
//! serde generates the code that reads a type once for each deserializer. The deserializers of `toml` are seven, which call each other for
//! every type, and were a third of the time that it takes to build this crate. Here is a single one, with the same texts of errors.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeTable, DeValue, ValueDeserializer};

/// The characters of a wrong word that are compared with names.
const WORD_CHARS: usize = 40;

/// A name that resembles a wrong word is more alike than this, by the measure of Jaro and Winkler.
const ALIKE_MIN: f64 = 0.8;

/// Reads a value of the file.
///
/// # Errors
///
/// Returns the reason why the value is no `T`, with its place.
pub(super) fn read<T: DeserializeOwned>(value: Spanned<DeValue<'_>>) -> Result<T, toml::de::Error> {
    T::deserialize(Value(value)).map_err(toml::de::Error::from)
}

/// The reason why a value is refused, and the place in bytes. It is small: every function that reads returns one.
#[derive(Debug)]
struct Refusal(Box<(String, Option<Range<usize>>)>);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.0)
    }
}

impl std::error::Error for Refusal {}

impl serde::de::Error for Refusal {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Box::new((message.to_string(), None)))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown("field", field, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown("variant", variant, expected)
    }
}

impl Refusal {
    /// Names the nearest expected word last: a long line loses words of the middle.
    fn unknown(kind: &str, word: &str, expected: &[&str]) -> Self {
        let names = || expected.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let expected_names = match expected.len() {
            0 => format!("there are no {kind}s"),
            1 => format!("expected {}", names()[0]),
            2 => format!("expected {}", names().join(" or ")),
            _ => format!("expected one of {}", names().join(", ")),
        };
        let nearest = nearest(word, expected).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        Self::custom(format_args!("unknown {kind} `{word}`, {expected_names}{nearest}"))
    }
}

/// The expected name that a wrong word resembles, if there is one.
pub(super) fn nearest<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    // A longer word is no misspelt name.
    let word: String = word.chars().take(WORD_CHARS).collect();
    let alike = names.iter().map(|&name| (strsim::jaro_winkler(&word, name), name));
    alike
        .filter(|&(alike, _)| alike > ALIKE_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

impl From<Refusal> for toml::de::Error {
    /// Has the same message and place. Only a deserializer of `toml` gives an error a place: here, for a value that is refused always.
    fn from(Refusal(refusal): Refusal) -> Self {
        struct Refuse(String);

        impl Visitor<'_> for Refuse {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }

            fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
                Err(E::custom(self.0))
            }
        }

        let (message, span) = *refusal;
        let Some(span) = span else { return Self::custom(message) };
        let value = ValueDeserializer::from(Spanned::new(span, DeValue::Boolean(true)));
        value.deserialize_any(Refuse(message)).expect_err("it is refused always")
    }
}

/// Gives a refusal the place of the value, unless it has a place inside the value.
fn at<T>(read: Result<T, Refusal>, span: Range<usize>) -> Result<T, Refusal> {
    read.map_err(|mut refusal| {
        refusal.0.1.get_or_insert(span);
        refusal
    })
}

/// A value of the file.
struct Value<'a>(Spanned<DeValue<'a>>);

impl Value<'_> {
    /// The refusal of a value that has another type than the expected one.
    fn wrong_type(&self, expected: &dyn Expected) -> Refusal {
        let other;
        let found = match self.0.get_ref() {
            DeValue::String(text) => Unexpected::Str(text),
            DeValue::Integer(number) => match Number::of(number) {
                Some(Number::Signed(number)) => Unexpected::Signed(number),
                Some(Number::Unsigned(number)) => Unexpected::Unsigned(number),
                _ => {
                    other = format!("integer `{number}` as i128");
                    Unexpected::Other(&other)
                }
            },
            DeValue::Float(number) => number_of(number).map_or(Unexpected::Other("large number"), Unexpected::Float),
            DeValue::Boolean(value) => Unexpected::Bool(*value),
            DeValue::Datetime(_) => Unexpected::Other("date or time"),
            DeValue::Array(_) => Unexpected::Seq,
            DeValue::Table(_) => Unexpected::Map,
        };
        let mut refusal = Refusal::invalid_type(found, expected);
        refusal.0.1 = Some(self.0.span());
        refusal
    }
}

/// A whole number, in the first of these types that it fits.
enum Number {
    Signed(i64),
    Unsigned(u64),
    LongSigned(i128),
    LongUnsigned(u128),
}

impl Number {
    fn of(number: &DeInteger<'_>) -> Option<Self> {
        let (text, radix) = (number.as_str(), number.radix());
        let signed = i64::from_str_radix(text, radix).map(Self::Signed);
        let unsigned = || u64::from_str_radix(text, radix).map(Self::Unsigned);
        let long_signed = || i128::from_str_radix(text, radix).map(Self::LongSigned);
        let long_unsigned = || u128::from_str_radix(text, radix).map(Self::LongUnsigned);
        signed.or_else(|_| unsigned()).or_else(|_| long_signed()).or_else(|_| long_unsigned()).ok()
    }
}

/// A number with a fraction; none if it is too large.
fn number_of(number: &DeFloat<'_>) -> Option<f64> {
    let text = number.as_str();
    text.parse().ok().filter(|number: &f64| number.is_finite() || text.contains("inf") || text.contains("nan"))
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let span = self.0.span();
        let read = match self.0.into_inner() {
            DeValue::String(text) => visitor.visit_str(&text),
            DeValue::Integer(number) => match Number::of(&number) {
                Some(Number::Signed(number)) => visitor.visit_i64(number),
                Some(Number::Unsigned(number)) => visitor.visit_u64(number),
                Some(Number::LongSigned(number)) => visitor.visit_i128(number),
                Some(Number::LongUnsigned(number)) => visitor.visit_u128(number),
                None => Err(Refusal::custom("integer number overflowed")),
            },
            DeValue::Float(number) => match number_of(&number) {
                Some(number) => visitor.visit_f64(number),
                None => Err(Refusal::custom("floating-point number overflowed")),
            },
            DeValue::Boolean(value) => visitor.visit_bool(value),
            DeValue::Array(values) => visitor.visit_seq(Elements(values.into_iter())),
            DeValue::Table(table) => visitor.visit_map(Entries::of(table)),
            date @ DeValue::Datetime(_) => Err(Value(Spanned::new(span.clone(), date)).wrong_type(&visitor)),
        };
        at(read, span)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let span = self.0.span();
        at(visitor.visit_some(self), span)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refusal> {
        let span = self.0.span();
        at(visitor.visit_newtype_struct(self), span)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let span = self.0.span();
        match self.0.into_inner() {
            DeValue::Array(values) => at(visitor.visit_seq(Elements(values.into_iter())), span),
            other => Err(Value(Spanned::new(span, other)).wrong_type(&visitor)),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let span = self.0.span();
        match self.0.into_inner() {
            DeValue::Table(table) => at(visitor.visit_map(Entries::of(table)), span),
            other => Err(Value(Spanned::new(span, other)).wrong_type(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let span = self.0.span();
        let variant = match self.0.into_inner() {
            DeValue::String(name) => Ok(Variant { name: Spanned::new(span.clone(), name), value: None }),
            DeValue::Table(table) => match <[_; 1]>::try_from(Vec::from_iter(table)) {
                Ok([(name, value)]) => Ok(Variant { name, value: Some(Value(value)) }),
                Err(entries) => Err(format!(
                    "wanted exactly 1 element, {}",
                    if entries.is_empty() { "found 0 elements" } else { "more than 1 element" }
                )),
            },
            _ => Err("wanted string or table".to_owned()),
        };
        at(variant.map_err(Refusal::custom).and_then(|variant| visitor.visit_enum(variant)), span)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct identifier ignored_any
    }
}

/// The values of a list that are left.
struct Elements<'a>(std::vec::IntoIter<Spanned<DeValue<'a>>>);

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Refusal;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refusal> {
        self.0.next().map(|value| seed.deserialize(Value(value))).transpose()
    }
}

/// The keys of a table that are left, with their values; and the value whose key was read last.
struct Entries<'a> {
    left: std::vec::IntoIter<(Spanned<Cow<'a, str>>, Spanned<DeValue<'a>>)>,
    value: Option<Spanned<DeValue<'a>>>,
}

impl<'a> Entries<'a> {
    fn of(table: DeTable<'a>) -> Self {
        Self { left: Vec::from_iter(table).into_iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some(value);
        read_name(&key, seed).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        let value = self.value.take().expect("the key is read before its value");
        let span = value.span();
        at(seed.deserialize(Value(value)), span)
    }
}

/// Reads a key, or the name of a variant.
fn read_name<'de, T: DeserializeSeed<'de>>(name: &Spanned<Cow<'_, str>>, seed: T) -> Result<T::Value, Refusal> {
    at(seed.deserialize(name.get_ref().as_ref().into_deserializer()), name.span())
}

/// A variant of an enum: a text that is its name, or a table whose one key is its name.
struct Variant<'a> {
    name: Spanned<Cow<'a, str>>,
    value: Option<Value<'a>>,
}

impl<'a> Variant<'a> {
    /// The value of a variant that has one.
    fn value(self, kind: &str) -> Result<Value<'a>, Refusal> {
        self.value.ok_or_else(|| Refusal::invalid_type(Unexpected::UnitVariant, &kind))
    }
}

impl<'de, 'a> EnumAccess<'de> for Variant<'a> {
    type Error = Refusal;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Refusal> {
        Ok((read_name(&self.name, seed)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Refusal;

    fn unit_variant(self) -> Result<(), Refusal> {
        match self.value {
            Some(value) if value.0.get_ref().as_table().is_none_or(|table| !table.is_empty()) => {
                Err(value.wrong_type(&"the name of a variant alone"))
            }
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refusal> {
        seed.deserialize(self.value("newtype variant")?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refusal> {
        self.value("tuple variant")?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, keys: &'static [&'static str], visitor: V) -> Result<V::Value, Refusal> {
        let value = self.value("struct variant")?;
        let table = value.0.get_ref().as_table();
        if let Some(unknown) = table.and_then(|table| table.keys().find(|key| !keys.contains(&key.get_ref().as_ref())))
        {
            let message =
                format!("unexpected keys in table: {}, available keys: {}", unknown.get_ref(), keys.join(", "));
            return at(Err(Refusal::custom(message)), unknown.span());
        }
        value.deserialize_map(visitor)
    }
}

#[cfg(test)]
#[allow(dead_code, reason = "fields are shown, and read by nobody")]
mod tests {
    use serde::Deserialize;
    use toml::de::DeTable;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
    struct Root {
        text: Option<String>,
        small: u8,
        signed: i64,
        unsigned: u64,
        wide: i128,
        fraction: f64,
        flag: bool,
        list: Vec<String>,
        inner: Inner,
        inners: Vec<Inner>,
        name: Option<Name>,
        variant: Option<Variants>,
        tagged: Vec<Tagged>,
        pair: Option<(u32, u32)>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a table")]
    struct Inner {
        must: u8,
        #[serde(default)]
        may: Vec<bool>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(try_from = "String")]
    struct Name(String);

    impl TryFrom<String> for Name {
        type Error = String;

        fn try_from(text: String) -> Result<Self, String> {
            if text.len() > 3 { Err(format!("`{text}` is long")) } else { Ok(Self(text)) }
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Variants {
        Alone,
        Number(u32),
        Table { most: u32 },
        Both(u32, u32),
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "that", deny_unknown_fields, rename_all = "kebab-case")]
    enum Tagged {
        Holds { most: u32 },
        Ends,
    }

    const KEYS: [&str; 15] = [
        "text", "small", "signed", "unsigned", "wide", "fraction", "flag", "list", "inner", "inners", "name",
        "variant", "tagged", "pair", "unknown",
    ];

    const VALUES: &str = r#"
        1 | -1 | 300 | 0x1F | 1_000 | 9223372036854775808 | 18446744073709551616 | 99999999999999999999999 | 1.5 | inf | nan | true
        "a" | "a long text" | 'alone' | "number" | "both" | [] | [1, 2] | ["a", "b"] | [true, 1] | {} | { must = 1 } | { must = 300 }
        { must = 1, may = [1] } | { must = 1, x = 2 } | { number = 5 } | { number = "5" } | { number = 5, alone = {} } | { alone = {} }
        { table = {} } | { table = { most = 3 } } | { table = { most = 3, x = 1 } } | { table = { most = -3 } } | { both = [1, 2] }
        { none = 1 } | [{ must = 1 }] | [{ must = 1 }, { mus = 1 }] | [{ that = "holds", most = 3 }] | [{ that = "holds", mos = 3 }]
        [{ that = "ends" }] | [{ that = "none" }] | [{ most = 3 }]"#;

    #[test]
    fn each_value_is_read_or_refused_as_toml_does() {
        let (mut read_values, mut refused) = (0, 0);
        for (key, value) in KEYS.iter().flat_map(|key| VALUES.split(['|', '\n']).map(move |value| (key, value.trim())))
        {
            let text = format!("# The second line is read.\n{key} = {value}\n");
            let Ok(table) = DeTable::parse(&text) else {
                assert!(value.is_empty(), "{text}");
                continue;
            };
            // `toml` reads a list as a table, by the order of the keys. Nobody writes that on purpose.
            if *key == "inner" && value.starts_with('[') {
                continue;
            }
            let shown = |read: Result<Root, toml::de::Error>| {
                read.map(|root| format!("{root:?}")).map_err(|mut error| {
                    error.set_input(Some(&text));
                    error.to_string()
                })
            };
            let right = shown(Root::deserialize(toml::Deserializer::from(table.clone())));
            let got = shown(read(Spanned::new(table.span(), DeValue::Table(table.into_inner()))));
            // The nearest name is ours.
            let got = got.map_err(|error| match error.split_once("; did you mean ") {
                Some((refusal, _)) => format!("{refusal}\n"),
                None => error,
            });
            assert_eq!(got, right, "{text}");
            *if got.is_ok() { &mut read_values } else { &mut refused } += 1;
        }
        assert!(read_values > 40 && refused > 300, "{read_values} values were read, and {refused} refused");
    }

    #[test]
    fn a_list_is_no_table() {
        let text = "inner = [1]";
        let table = DeTable::parse(text).expect("it is TOML");
        let error = read::<Root>(Spanned::new(table.span(), DeValue::Table(table.into_inner()))).expect_err("a list");
        assert_eq!(error.message(), "invalid type: sequence, expected a table");
    }
}
