//! What comparisons of servers share: CPU time from `/proc`, medians of ratios, and runs of a load generator.

pub mod cpu;
pub mod figures;
pub mod generator;
