//! Reports of a run or a sweep: one self-contained HTML file, and the same table as Markdown.

mod chart;
mod curves;
mod escape;
mod evaluate;
mod found;
mod latency;
mod markdown;
mod page;
mod table;

pub use evaluate::evaluate;
pub use found::{Found, Run, find};
pub use latency::{Alone, Measured, measure};

pub use crate::latency::Latency;
pub use markdown::markdown;
pub use page::page;
pub use table::{Row, rows};
