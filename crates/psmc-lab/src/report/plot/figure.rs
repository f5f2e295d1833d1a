//! Lines and areas over two axes.

use std::iter::once;
use std::ops::Range;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::element::{DashedPathElement, EmptyElement, PathElement, Polygon, Text};
use plotters::prelude::SVGBackend;
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, FontTransform, ShapeStyle};

use super::DrawError;
use super::{Area, Key, TEXT_SIZE, draw, stroke, text, tick};
use super::{INK, MARK, MESH, Pen};

/// A plot over two axes, the first of which is the time in most cases.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) title: String,
    /// What the axes are, with units.
    pub(crate) axes: [&'static str; 2],
    /// As far as the first axis reaches. The second one reaches from 0 to the largest value.
    pub(crate) x: Range<f64>,
    pub(crate) series: Vec<Series>,
    pub(crate) marks: Vec<Mark>,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) shape: Shape,
    /// That of its place in the figure if `None`.
    pub(crate) pen: Option<Pen>,
}

/// How points are joined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// By a line.
    Line,
    /// By a line, with colour between it and this lower one.
    Area(Vec<(f64, f64)>),
}

/// A vertical line with a text, such as an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) x: f64,
    pub(crate) label: String,
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl Figure {
    /// The plot as the text of an SVG file.
    pub(crate) fn svg(&self) -> Result<String, DrawError> {
        let keys = self.series.iter().enumerate().map(|(number, series)| series.key(number));
        draw(SIZE, &self.title, &keys.collect::<Vec<_>>(), |area| self.plot(area))
    }

    fn plot(&self, area: &Area<'_>) -> Result<(), DrawError> {
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .x_label_area_size(X_LABELS)
            .y_label_area_size(Y_LABELS)
            .build_cartesian_2d(self.x.clone(), 0.0..self.top())?;
        self.mesh(&mut chart)?;
        for (number, series) in self.series.iter().enumerate() {
            series.draw(series.pen_of(number), &mut chart)?;
        }
        self.marks.iter().try_for_each(|mark| mark.draw(self.top(), &mut chart))
    }

    fn mesh(&self, chart: &mut Chart<'_, '_>) -> Result<(), DrawError> {
        let distance = |span: f64| span / TICKS as f64;
        let (x, y) = (distance(self.x.end - self.x.start), distance(self.top()));
        chart
            .configure_mesh()
            .x_labels(TICKS)
            .y_labels(TICKS)
            .x_label_formatter(&|value| tick(*value, x))
            .y_label_formatter(&|value| tick(*value, y))
            .x_desc(self.axes[0])
            .y_desc(self.axes[1])
            .label_style(text(TEXT_SIZE, HPos::Center))
            .axis_desc_style(text(TEXT_SIZE, HPos::Center))
            .axis_style(INK)
            .bold_line_style(MESH)
            .light_line_style(MESH.mix(0.0))
            .draw()
    }

    /// As far as the second axis reaches: a little above the largest value.
    fn top(&self) -> f64 {
        let values = self.series.iter().flat_map(|series| &series.points).map(|point| point.1);
        let largest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        if largest > 0.0 { largest * HEADROOM } else { 1.0 }
    }
}

impl Series {
    fn pen_of(&self, number: usize) -> Pen {
        self.pen.unwrap_or_else(|| Pen::nth(number))
    }

    fn key(&self, number: usize) -> Key<'_> {
        let filled = matches!(self.shape, Shape::Area(_));
        Key { label: &self.label, pen: self.pen_of(number), filled }
    }

    fn draw(&self, pen: Pen, chart: &mut Chart<'_, '_>) -> Result<(), DrawError> {
        let points = self.points.clone();
        if let Shape::Area(lower) = &self.shape {
            let outline: Vec<_> = self.points.iter().chain(lower.iter().rev()).copied().collect();
            chart.draw_series(once(Polygon::new(outline, pen.colour().mix(AREA_OPACITY))))?;
        }
        if pen.dashed {
            chart.draw_series(once(dashes(points, stroke(pen))))?;
        } else {
            chart.draw_series(once(PathElement::new(points, stroke(pen))))?;
        }
        Ok(())
    }
}

impl Mark {
    fn draw(&self, top: f64, chart: &mut Chart<'_, '_>) -> Result<(), DrawError> {
        chart.draw_series(once(dashes([(self.x, 0.0), (self.x, top)], MARK.stroke_width(1))))?;
        let style = text(TEXT_SIZE, HPos::Left).color(&MARK).transform(FontTransform::Rotate90);
        let label = Text::new(self.label.clone(), MARK_OFFSET, style);
        chart.draw_series(once(EmptyElement::at((self.x, top)) + label))?;
        Ok(())
    }
}

/// A dashed line.
pub(super) fn dashes<Point: Clone + 'static>(
    points: impl IntoIterator<Item = Point, IntoIter: Clone>,
    style: ShapeStyle,
) -> DashedPathElement<impl Iterator<Item = Point> + Clone, i32> {
    DashedPathElement::new(points, DASH, DASH_GAP, style)
}

const SIZE: (u32, u32) = (960, 480);
const MARGIN: i32 = 16;
const X_LABELS: i32 = 44;
const Y_LABELS: i32 = 64;
const TICKS: usize = 10;
const HEADROOM: f64 = 1.08;

/// Areas are paler than their edges, so that lines of the mesh and marks stay visible.
const AREA_OPACITY: f64 = 0.55;

/// The text of a mark stands a little to the right of its line.
const MARK_OFFSET: (i32, i32) = (9, 6);

const DASH: i32 = 5;
const DASH_GAP: i32 = 4;
