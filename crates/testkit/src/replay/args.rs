//! The arguments of a call, as traces write them.

use flowgate::Arg;
use serde_json::Value;

/// The arguments of one step; they lend themselves as [`Arg`]s.
#[derive(Default)]
pub(super) struct Args(Vec<Given>);

enum Given {
    Single(Value),
    List(Vec<Value>),
}

impl Args {
    pub(super) fn read(args: Option<&Value>) -> Result<Self, String> {
        let Some(args) = args else {
            return Ok(Args::default());
        };
        let list = args.as_array().ok_or("args is not a list")?;
        list.iter().map(given).collect::<Result<_, _>>().map(Args)
    }

    /// One whole number.
    pub(super) fn number(number: i64) -> Self {
        Args(vec![Given::Single(number.into())])
    }

    /// Runs `work` with the arguments.
    pub(super) fn lend<T>(&self, work: impl FnOnce(&[Arg<'_>]) -> T) -> Result<T, String> {
        let lists: Vec<Vec<Arg<'_>>> = self.0.iter().map(elements).collect::<Result<_, _>>()?;
        let args: Vec<Arg<'_>> = self
            .0
            .iter()
            .zip(&lists)
            .map(|(given, list)| match given {
                Given::Single(value) => scalar(value),
                Given::List(_) => Ok(Arg::List(list)),
            })
            .collect::<Result<_, String>>()?;
        Ok(work(&args))
    }
}

fn given(value: &Value) -> Result<Given, String> {
    if let Some(list) = value.as_array() {
        return Ok(Given::List(list.clone()));
    }
    let tagged = value.as_object().and_then(|object| object.iter().next());
    match tagged {
        Some((tag, Value::Array(list))) if tag == "array" || tag == "int_array" => {
            Ok(Given::List(list.clone()))
        }
        _ => Ok(Given::Single(value.clone())),
    }
}

fn elements(given: &Given) -> Result<Vec<Arg<'_>>, String> {
    match given {
        Given::Single(_) => Ok(Vec::new()),
        Given::List(list) => list.iter().map(scalar).collect(),
    }
}

/// Java's types become what Flowgate tells apart: whole numbers of all widths
/// are one, and so are those with a fraction.
fn scalar(value: &Value) -> Result<Arg<'_>, String> {
    let cannot = || format!("cannot interpret argument {value}");
    Ok(match value {
        Value::Null => Arg::Null,
        Value::Bool(flag) => Arg::from(*flag),
        Value::String(text) => Arg::from(&**text),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Arg::from(whole),
            None => Arg::from(number.as_f64().ok_or_else(cannot)?),
        },
        Value::Object(object) => {
            let (tag, inner) = object.iter().next().ok_or_else(cannot)?;
            match tag.as_str() {
                "char" => {
                    let text = inner.as_str().ok_or_else(cannot)?;
                    Arg::from(text.chars().next().ok_or_else(cannot)?)
                }
                "float" | "double" => Arg::from(inner.as_f64().ok_or_else(cannot)?),
                "long" | "short" | "byte" | "key" => scalar(inner)?,
                _ => return Err(cannot()),
            }
        }
        Value::Array(_) => return Err(cannot()),
    })
}
