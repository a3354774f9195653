//! Values whose type the exchange that carries them does not know.

use std::any::Any;
use std::sync::Arc;

/// Shared value whose type only its writer and its reader know, such as the handler of a request.
#[derive(Clone, Debug)]
pub struct Opaque(Arc<dyn Any + Send + Sync>);

impl Opaque {
    /// Wraps a value; the allocation stays the same.
    pub fn new<T: Any + Send + Sync>(value: Arc<T>) -> Opaque {
        Opaque(value)
    }

    /// Returns the value, or `None` if it is of another type.
    pub fn downcast<T: Any + Send + Sync>(self) -> Option<Arc<T>> {
        self.0.downcast().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_returned_as_the_type_it_was_made_of_and_no_other() {
        let value = Arc::new(7_u64);
        let opaque = Opaque::new(Arc::clone(&value));
        assert_eq!(opaque.clone().downcast::<u32>(), None);
        let back = opaque.downcast::<u64>().unwrap();
        assert!(Arc::ptr_eq(&back, &value));
    }
}
