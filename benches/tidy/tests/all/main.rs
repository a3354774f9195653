//! Checks of the repository.

mod addresses;
mod files;
mod host_setup;
mod layers;
mod makefile;
mod names;
mod patches;
mod targets;
