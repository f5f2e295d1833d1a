//! Colours that people with any kind of colour vision can tell apart (Okabe and Ito 2008).

use plotters::style::RGBColor;

/// What a series is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pen {
    colour: usize,
    /// Whether its lines are broken.
    pub(super) dashed: bool,
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
    pub(super) fn colour(self) -> RGBColor {
        COLOURS[self.colour]
    }
}

/// What text and axes are drawn in.
pub(super) const INK: RGBColor = RGBColor(51, 51, 51);

/// What events are drawn in.
pub(super) const MARK: RGBColor = RGBColor(110, 110, 110);

/// What the lines behind a plot are drawn in.
pub(super) const MESH: RGBColor = RGBColor(226, 226, 226);

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
