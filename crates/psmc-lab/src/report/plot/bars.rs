//! Bars in groups.

use std::iter::once;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::element::{PathElement, Rectangle, Text};
use plotters::prelude::SVGBackend;
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::DrawError;
use super::{Area, HEADING_SIZE, Key, TEXT_SIZE, draw, text, tick};
use super::{INK, MESH, Pen};

/// Panels one below the other, each with bars in groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What stands above it.
    pub title: String,
    /// What the bars measure, with the unit.
    pub axis: &'static str,
    /// What the first bar of each group is, the second one, and so on.
    pub keys: Vec<&'static str>,
    /// The panels, the first one on top.
    pub panels: Vec<Panel>,
}

/// A row of groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What stands above it.
    pub heading: String,
    /// The groups, from left to right.
    pub groups: Vec<Group>,
}

/// Bars side by side; there may be gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What stands below it.
    pub label: String,
    /// The bars, from left to right.
    pub bars: Vec<Option<Bar>>,
}

/// A value, and between what it varied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// How long it is.
    pub value: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl Bars {
    /// The plot as the text of an SVG file.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn svg(&self) -> Result<String, DrawError> {
        let keys: Vec<_> = self
            .keys
            .iter()
            .enumerate()
            .map(|(number, label)| Key { label, pen: Pen::nth(number), filled: true })
            .collect();
        let panels = u32::try_from(self.panels.len()).unwrap_or(u32::MAX);
        let height = PANEL_HEIGHT.saturating_mul(panels.max(1)).saturating_add(TITLE_HEIGHT);
        draw((WIDTH, height), &self.title, &keys, |area| self.plot(area))
    }

    fn plot(&self, area: &Area<'_>) -> Result<(), DrawError> {
        let areas = area.split_evenly((self.panels.len().max(1), 1));
        self.panels.iter().zip(&areas).try_for_each(|(panel, area)| panel.plot(self.axis, area))
    }
}

impl Panel {
    fn plot(&self, axis: &str, area: &Area<'_>) -> Result<(), DrawError> {
        let (above, below) = area.split_vertically(HEADING_HEIGHT);
        above.draw(&Text::new(
            &*self.heading,
            (Y_LABELS, HEADING_HEIGHT / 2),
            text(HEADING_SIZE, HPos::Left),
        ))?;
        let mut chart = ChartBuilder::on(&below)
            .margin(MARGIN)
            .x_label_area_size(X_LABELS)
            .y_label_area_size(Y_LABELS)
            .build_cartesian_2d(0.0..self.groups.len() as f64, 0.0..self.top())?;
        self.mesh(axis, &mut chart)?;
        for (group, left) in self.groups.iter().zip(0_u32..) {
            group.draw(f64::from(left), &mut chart)?;
            let (x, y) = chart.backend_coord(&(f64::from(left) + 0.5, 0.0));
            let (dx, dy) = below.get_base_pixel();
            below.draw(&Text::new(
                &*group.label,
                (x - dx, y - dy + LABEL_OFFSET),
                text(TEXT_SIZE, HPos::Center),
            ))?;
        }
        Ok(())
    }

    fn mesh(&self, axis: &str, chart: &mut Chart<'_, '_>) -> Result<(), DrawError> {
        let distance = self.top() / TICKS as f64;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .y_labels(TICKS)
            .y_label_formatter(&|value| tick(*value, distance))
            .y_desc(axis)
            .label_style(text(TEXT_SIZE, HPos::Center))
            .axis_desc_style(text(TEXT_SIZE, HPos::Center))
            .axis_style(INK)
            .bold_line_style(MESH)
            .light_line_style(MESH.mix(0.0))
            .draw()
    }

    fn top(&self) -> f64 {
        let bars = self.groups.iter().flat_map(|group| group.bars.iter().flatten());
        let largest = bars.map(|bar| bar.high.max(bar.value)).fold(0.0, f64::max);
        if largest > 0.0 { largest * HEADROOM } else { 1.0 }
    }
}

impl Group {
    fn draw(&self, left: f64, chart: &mut Chart<'_, '_>) -> Result<(), DrawError> {
        let width = GROUP_SHARE / self.bars.len().max(1) as f64;
        let start = left + (1.0 - GROUP_SHARE) / 2.0;
        for (number, bar) in self.bars.iter().enumerate() {
            if let Some(bar) = bar {
                bar.draw(number, start + width * number as f64, width, chart)?;
            }
        }
        Ok(())
    }
}

impl Bar {
    fn draw(&self, number: usize, left: f64, width: f64, chart: &mut Chart<'_, '_>) -> Result<(), DrawError> {
        let corners = [(left, 0.0), (left + width * BAR_SHARE, self.value)];
        chart.draw_series(once(Rectangle::new(corners, Pen::nth(number).colour().filled())))?;
        if self.high > self.low {
            let x = left + width * BAR_SHARE / 2.0;
            chart
                .draw_series(once(PathElement::new([(x, self.low), (x, self.high)], INK.stroke_width(1))))?;
        }
        Ok(())
    }
}

const WIDTH: u32 = 1100;
const TITLE_HEIGHT: u32 = 40;
const PANEL_HEIGHT: u32 = 300;
const HEADING_HEIGHT: i32 = 26;
const MARGIN: i32 = 12;
const X_LABELS: i32 = 30;
const Y_LABELS: i32 = 64;
const LABEL_OFFSET: i32 = 16;
const TICKS: usize = 8;
const HEADROOM: f64 = 1.08;

/// How much of the width of a group its bars take.
const GROUP_SHARE: f64 = 0.82;

/// How much of its width a bar takes.
const BAR_SHARE: f64 = 0.92;
