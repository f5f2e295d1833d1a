//! Plots as SVG: what is drawn apart from how.

mod canvas;
mod figure;
mod palette;

use std::io;

use plotters::drawing::DrawingAreaErrorKind;

pub(crate) use figure::{Figure, Mark, Series, Shape};

/// Why a plot could not be drawn.
pub type DrawError = DrawingAreaErrorKind<io::Error>;
