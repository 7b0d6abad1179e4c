//! Reads a JSON document from standard input, prints it with indentation, and counts its values by their kinds.

use std::collections::BTreeMap;
use std::io::Read;

fn count(value: &json::JsonValue, kinds: &mut BTreeMap<&'static str, usize>) {
    let kind = match value {
        json::JsonValue::Null => "null",
        json::JsonValue::Boolean(_) => "boolean",
        json::JsonValue::Number(_) => "number",
        json::JsonValue::Short(_) | json::JsonValue::String(_) => "string",
        json::JsonValue::Array(_) => "array",
        json::JsonValue::Object(_) => "object",
    };
    *kinds.entry(kind).or_default() += 1;
    value.members().chain(value.entries().map(|(_, v)| v)).for_each(|v| count(v, kinds));
}

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("standard input is text");
    match json::parse(&text) {
        Ok(value) => {
            println!("{}", json::stringify_pretty(value.clone(), 2));
            let mut kinds = BTreeMap::new();
            count(&value, &mut kinds);
            println!("{kinds:?}");
        }
        Err(error) => {
            eprintln!("json: {error}");
            std::process::exit(1);
        }
    }
}
