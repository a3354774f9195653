//! Values with bytes that all threads of the process share, within one bound, and a front for each thread.
//!
//! A [`Store`] is cut into shards with a lock each. A thread asks it through a [`StoreFront`], which has the entries that the thread asks
//! for most in hands of its own: a hit there takes no lock and writes nothing that another thread reads. The front sees at once
//! that the store no longer has an entry, so it returns nothing that the store would not return.

mod front;
mod shared;

pub use front::{Hit, StoreFront};
pub use shared::{Lifetime, Store, StoreKey, Stored};

#[cfg(test)]
mod tests;
