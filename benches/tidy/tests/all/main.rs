//! Checks of the repository.

mod addresses;
mod clusters;
mod files;
mod host_setup;
mod layers;
mod makefile;
mod names;
mod patches;
mod pgo;
mod targets;
