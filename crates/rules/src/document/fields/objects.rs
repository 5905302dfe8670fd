//! Fields that are lists of objects, such as the values of a hot-parameter rule
//! that have limits of their own.

use super::Fields;
use crate::document::json::Shape;
use crate::field::FieldKind;
use crate::kind::KindSpec;

impl<'a> Fields<'a> {
    /// The objects of a list, whose fields are those of
    /// [`FieldKind::Objects`]. Those with a fault are left out: where faulty
    /// rules are skipped, the rule loads without them.
    pub fn objects<T>(
        &mut self,
        field: &'static str,
        mut read: impl FnMut(&mut Fields<'a>) -> T,
    ) -> Vec<T> {
        let Some(FieldKind::Objects(specs)) = self.spec(field).map(|spec| spec.kind) else {
            return Vec::new();
        };
        let Some(value) = self.value(field) else {
            return Vec::new();
        };
        if value.shape() != Shape::List {
            self.wrong::<()>(field, value, "is not a list");
            return Vec::new();
        }
        let items = match value.items() {
            Ok(items) => items,
            Err(message) => {
                self.fault(field, message);
                return Vec::new();
            }
        };
        let kind = KindSpec {
            name: field,
            head: &[],
            fields: specs,
            golang: None,
            guide: "",
            ..self.kind
        };
        let parent = format!("{}.{field}", self.path());
        let mut objects = Vec::with_capacity(items.len());
        for (position, item) in items.into_iter().enumerate() {
            let fields = Fields {
                parent: Some(parent.clone()),
                ..Fields::of_code(kind, position)
            };
            match fields.read_object(item, "an object; write {...}") {
                Ok(mut fields) => {
                    let object = read(&mut fields);
                    fields.check_limits();
                    let found = fields.finish();
                    if found.faults.is_empty() && found.parts.is_empty() {
                        self.found.warnings.extend(found.warnings);
                        objects.push(object);
                    }
                    self.found.parts.extend(found.faults);
                    self.found.parts.extend(found.parts);
                }
                Err(fault) => self.found.parts.push(fault),
            }
        }
        objects
    }

    /// Records that `part` of the object at `position` of the list `field` is
    /// wrong, in a rule that was built in code.
    pub fn fault_in(&mut self, field: &'static str, position: usize, part: &str, message: String) {
        let mut remark = self.remark(field, message);
        remark.path = format!("{}[{position}].{part}", remark.path);
        self.found.faults.push(remark);
    }
}
