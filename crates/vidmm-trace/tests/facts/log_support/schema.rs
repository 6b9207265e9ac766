//! Holds lines of a log to `docs/reference/events.schema.json`: the keywords of JSON Schema that it uses, and no others.

use serde_json::Value;

/// The fields that all events have.
const COMMON: [&str; 4] = ["number", "at", "occurred_at", "event"];

/// The schema of a log.
pub struct Schema(Value);

impl Schema {
    /// The schema in `docs/`.
    pub fn read() -> Self {
        let text = include_str!("../../../../../docs/reference/events.schema.json");
        Self(serde_json::from_str(text).expect("the schema is JSON"))
    }

    /// The kinds of events that it describes.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.events().map(|(kind, _)| kind)
    }

    /// The fields of a kind of event, with those that all events have.
    pub fn fields(&self, kind: &str) -> Vec<&str> {
        let fields = self.0["$defs"]["events"][kind]["properties"].as_object();
        fields.expect("the kind is described").keys().map(String::as_str).collect()
    }

    /// The lines that it allows, as references.
    pub fn lines(&self) -> Vec<&str> {
        let lines = self.0["oneOf"].as_array().expect("there are several");
        lines.iter().map(|line| line["$ref"].as_str().expect("each is described by itself")).collect()
    }

    /// The descriptions of events and of their fields that are empty.
    pub fn undescribed(&self) -> Vec<String> {
        let is_empty = |of: &Value| of["description"].as_str().is_none_or(|text| text.len() < 4);
        let of_event = |(kind, event): (&str, &Value)| {
            let fields = event["properties"].as_object().into_iter().flatten();
            let own = fields.filter(|(name, _)| !COMMON.contains(&name.as_str()));
            let fields = own.filter(|(_, field)| is_empty(field)).map(|(name, _)| format!("{kind}.{name}"));
            is_empty(event).then(|| kind.to_owned()).into_iter().chain(fields).collect::<Vec<_>>()
        };
        self.events().flat_map(of_event).collect()
    }

    /// The names of all fields, of events and of what is in them, whose value is a handle.
    pub fn handles(&self) -> Vec<&str> {
        fn look<'a>(schema: &'a Value, names: &mut Vec<&'a str>) {
            let is_handle = |of: &Value| {
                let choices = of["oneOf"].as_array().into_iter().flatten().chain([of]);
                choices.filter_map(|of| of["$ref"].as_str()).any(|of| of.ends_with("_handle"))
            };
            for (name, of) in schema.as_object().into_iter().flatten() {
                names.extend(is_handle(of).then_some(name.as_str()));
                look(of, names);
            }
            schema.as_array().into_iter().flatten().for_each(|of| look(of, names));
        }
        let mut names = Vec::new();
        look(&self.0["$defs"], &mut names);
        names
    }

    fn events(&self) -> impl Iterator<Item = (&str, &Value)> {
        let events = self.0["$defs"]["events"].as_object().expect("they are described");
        events.iter().map(|(kind, event)| (kind.as_str(), event))
    }

    /// Checks a line of a log.
    ///
    /// # Panics
    ///
    /// If the line is not as the schema has it.
    pub fn check_line(&self, line: &str) {
        let value: Value = serde_json::from_str(line).expect("lines are JSON");
        let path = match value["event"].as_str() {
            Some(kind) => format!("#/$defs/events/{kind}"),
            None if value.get("vidmm_events").is_some() => "#/$defs/header".to_owned(),
            None => "#/$defs/trailer".to_owned(),
        };
        assert!(self.lines().contains(&path.as_str()), "the schema allows no such line: {line}");
        if let Err(problem) = self.check(&value, self.at(&path)) {
            panic!("{problem}: {line}");
        }
    }

    fn at(&self, reference: &str) -> &Value {
        self.0.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference} is not in the schema"))
    }

    fn check(&self, value: &Value, schema: &Value) -> Result<(), String> {
        let schema = schema.as_object().ok_or("a schema is no object")?;
        for (keyword, of) in schema {
            let is_right = match keyword.as_str() {
                "description" => true,
                "$ref" => {
                    self.check(value, self.at(of.as_str().ok_or("a reference is no text")?))?;
                    true
                }
                "type" => match of.as_str() {
                    Some("null") => value.is_null(),
                    Some("boolean") => value.is_boolean(),
                    Some("integer") => value.is_u64() || value.is_i64(),
                    Some("string") => value.is_string(),
                    Some("array") => value.is_array(),
                    Some("object") => value.is_object(),
                    _ => return Err(format!("no such type: {of}")),
                },
                "minimum" => of == 0 && value.is_u64(),
                "const" => value == of,
                "enum" => of.as_array().is_some_and(|all| all.contains(value)),
                "oneOf" => {
                    let all = of.as_array().ok_or("there is nothing to choose from")?;
                    all.iter().filter(|one| self.check(value, one).is_ok()).count() == 1
                }
                "items" => {
                    value.as_array().into_iter().flatten().try_for_each(|item| self.check(item, of))?;
                    true
                }
                "prefixItems" => {
                    let items = value.as_array().into_iter().flatten();
                    items.zip(of.as_array().into_iter().flatten()).try_for_each(|(item, of)| self.check(item, of))?;
                    true
                }
                "minItems" => {
                    value.as_array().is_none_or(|items| items.len() as u64 >= of.as_u64().unwrap_or(u64::MAX))
                }
                "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= of.as_u64().unwrap_or(0)),
                "properties" => {
                    for (name, field) in value.as_object().into_iter().flatten() {
                        if let Some(of) = of.get(name) {
                            self.check(field, of).map_err(|problem| format!("`{name}`: {problem}"))?;
                        }
                    }
                    true
                }
                "required" => {
                    let mut names = of.as_array().into_iter().flatten().filter_map(Value::as_str);
                    names.all(|name| value.get(name).is_some())
                }
                "additionalProperties" => {
                    let known = schema.get("properties");
                    let is_known = |name: &str| known.is_some_and(|known| known.get(name).is_some());
                    let mut others = value.as_object().into_iter().flatten().filter(|(name, _)| !is_known(name));
                    match of {
                        Value::Bool(false) => others.next().is_none(),
                        of => others.all(|(_, other)| self.check(other, of).is_ok()),
                    }
                }
                other => return Err(format!("the check does not know `{other}`")),
            };
            if !is_right {
                return Err(format!("{value} is against `{keyword}`: {of}"));
            }
        }
        Ok(())
    }
}
