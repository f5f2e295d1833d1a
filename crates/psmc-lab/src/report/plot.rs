//! Plots as SVG: what is drawn apart from how.

mod bars;
mod figure;

use std::io;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::{PathElement, Rectangle, Text};
use plotters::prelude::{DrawingArea, IntoDrawingArea, IntoFont, SVGBackend, WHITE};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, ShapeStyle, TextStyle};

pub use bars::{Bar, Bars, Group, Panel};
pub(crate) use figure::{Figure, Mark, Series, Shape};

/// Why a plot could not be drawn.
pub type DrawError = DrawingAreaErrorKind<io::Error>;

/// A part of the sheet, addressed by pixels.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A line of the legend.
struct Key<'a> {
    label: &'a str,
    pen: Pen,
    filled: bool,
}

/// Makes a sheet and has the plot drawn on the part of it that title and legend leave.
fn draw(
    size: (u32, u32),
    title: &str,
    keys: &[Key<'_>],
    plot: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let mut svg = String::new();
    {
        let sheet = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        sheet.fill(&WHITE)?;
        sheet.draw(&Text::new(title, (TITLE_LEFT, TITLE_HEIGHT / 2), text(TITLE_SIZE, HPos::Left)))?;
        let (_, below) = sheet.split_vertically(TITLE_HEIGHT);
        let (left, right) = below.split_horizontally(size.0 - legend_width(keys));
        plot(&left)?;
        legend(&right, keys)?;
        sheet.present()?;
    }
    Ok(svg)
}

/// How text is written; its place is given by its vertical centre and this end of it.
fn text(size: u32, end: HPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&INK).pos(Pos::new(end, VPos::Center))
}

/// How the line of a series is drawn.
fn stroke(pen: Pen) -> ShapeStyle {
    pen.colour().stroke_width(LINE_WIDTH)
}

/// A number at an axis whose ticks are this far from each other.
fn tick(number: f64, distance: f64) -> String {
    let decimals = [1.0, 0.1, 0.01].into_iter().position(|unit| distance >= unit).unwrap_or(3);
    format!("{number:.decimals$}")
}

fn legend(area: &Area<'_>, keys: &[Key<'_>]) -> Result<(), DrawError> {
    for (key, y) in keys.iter().zip((LEGEND_TOP..).step_by(LEGEND_STEP)) {
        let sample = [(0, y), (SAMPLE_WIDTH, y)];
        if key.filled {
            let corners = [(0, y - SAMPLE_HEIGHT / 2), (SAMPLE_WIDTH, y + SAMPLE_HEIGHT / 2)];
            area.draw(&Rectangle::new(corners, key.pen.colour().filled()))?;
        } else if key.pen.dashed {
            area.draw(&figure::dashes(sample, stroke(key.pen)))?;
        } else {
            area.draw(&PathElement::new(sample, stroke(key.pen)))?;
        }
        area.draw(&Text::new(key.label, (SAMPLE_WIDTH + GAP, y), text(TEXT_SIZE, HPos::Left)))?;
    }
    Ok(())
}

/// As wide as its longest line, as far as that can be told without the font.
fn legend_width(keys: &[Key<'_>]) -> u32 {
    let longest = keys.iter().map(|key| key.label.chars().count()).max().unwrap_or(0);
    let characters = u32::try_from(longest).unwrap_or(u32::MAX);
    let samples = (SAMPLE_WIDTH + 2 * GAP).unsigned_abs();
    characters.saturating_mul(CHARACTER_WIDTH).saturating_add(samples).min(LEGEND_WIDEST)
}

/// Text at axes and in legends.
const TEXT_SIZE: u32 = 15;

/// Text above the parts of a plot.
const HEADING_SIZE: u32 = 17;

const TITLE_SIZE: u32 = 20;
const TITLE_HEIGHT: i32 = 40;
const TITLE_LEFT: i32 = 16;

const LINE_WIDTH: u32 = 2;

const LEGEND_TOP: i32 = 20;
const LEGEND_STEP: usize = 22;
const SAMPLE_WIDTH: i32 = 22;
const SAMPLE_HEIGHT: i32 = 12;
const GAP: i32 = 8;

/// Of the usual sans-serif fonts at [`TEXT_SIZE`]; a guess on the generous side.
const CHARACTER_WIDTH: u32 = 8;

/// A third of the sheet: the plot must stay readable, even if the end of a long name is cut off.
const LEGEND_WIDEST: u32 = 320;

/// What a series is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pen {
    colour: usize,
    /// Whether its lines are broken.
    dashed: bool,
}

impl Pen {
    /// The pen of the nth series: dashed, where an earlier one has its colour.
    pub(crate) fn nth(number: usize) -> Self {
        Self { colour: number % COLOURS.len(), dashed: number / COLOURS.len() % 2 == 1 }
    }

    /// The other pen of the same colour.
    pub(crate) fn other(self) -> Self {
        Self { dashed: !self.dashed, ..self }
    }

    /// Its colour.
    fn colour(self) -> RGBColor {
        COLOURS[self.colour]
    }
}

/// What text and axes are drawn in.
const INK: RGBColor = RGBColor(51, 51, 51);

/// What events are drawn in.
const MARK: RGBColor = RGBColor(110, 110, 110);

/// What the lines behind a plot are drawn in.
const MESH: RGBColor = RGBColor(226, 226, 226);

/// Yellow, the eighth, is hard to see on white.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
