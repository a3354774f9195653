//! The choice of a congestion controller for a connection, and what connections leave for later ones (careful resume).

pub mod path_table;
pub mod selection;
