//! Plots as SVG: what is drawn apart from how.

mod bars;
mod canvas;
mod figure;
mod palette;

use std::io;

use plotters::drawing::DrawingAreaErrorKind;

pub use bars::{Bar, Bars, Group, Panel};
pub(crate) use figure::{Figure, Mark, Series, Shape};
pub(crate) use palette::Pen;

/// Why a plot could not be drawn.
pub type DrawError = DrawingAreaErrorKind<io::Error>;
