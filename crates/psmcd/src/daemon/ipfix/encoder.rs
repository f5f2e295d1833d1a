//! Records in, messages out (RFC 7011 §3), without clock and I/O.

use std::time::{Duration, Instant};

use netflow_parser::variable_versions::field_value::FieldValue;
use netflow_parser::variable_versions::ipfix::lookup::IPFixField;
use netflow_parser::variable_versions::ipfix::{
    Data, FlowSet, FlowSetBody, FlowSetHeader, Header, IPFix, OptionsData, OptionsTemplate,
    Template as WireTemplate, TemplateField,
};

use super::elements::{
    FLOW_V4, FLOW_V6, Field, FlowRow, OTHERS, PATH, PathRow, SEGMENT, SHARE, SegmentRow, ShareRow, TARGET,
    TargetRow, Template, VARIABLE,
};

/// The longest message: with UDP and IPv6 in front it is as long as any path must carry whole (RFC 8200 §5), so that none is
/// cut to pieces where the path is not known.
pub(super) const MAX_MESSAGE: usize = 1280 - 40 - 8;

/// Version 10, by which collectors tell IPFIX from what was before it.
const VERSION: u16 = 10;

/// Sets of templates, and of options templates (RFC 7011 §3.3.2).
const TEMPLATES: u16 = 2;
const OPTIONS_TEMPLATES: u16 = 3;

/// Bytes of the header of a message, and of a set; sets are padded to words.
const HEADER: usize = 16;
const SET_HEADER: usize = 4;
const PADDING: usize = 3;

/// So many messages of a session begin with the templates: without them a collector makes nothing of all that follows until they
/// are sent again, and one message may get lost.
const EAGER: u8 = 3;

/// What is told.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Flow(FlowRow),
    Path(PathRow),
    Share(ShareRow),
    Segment(SegmentRow),
    Target(TargetRow),
}

/// A message, and how many records are in it.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    pub(super) records: u32,
}

/// One session with a collector: its sequence, and when it was told the templates.
#[derive(Debug)]
pub(super) struct Encoder {
    domain: u32,
    enterprise: u32,
    template_interval: Duration,
    /// Records so far (RFC 7011 §3.1).
    sequence: u32,
    told_at: Option<Instant>,
    eager: u8,
}

impl Encoder {
    /// A session that has not begun.
    pub(super) fn new(domain: u32, enterprise: u32, template_interval: Duration) -> Self {
        Self { domain, enterprise, template_interval, sequence: 0, told_at: None, eager: EAGER }
    }

    /// Begins another session: who listens knows nothing.
    pub(super) fn start_anew(&mut self) {
        (self.sequence, self.told_at, self.eager) = (0, None, EAGER);
    }

    /// The records in as many messages as they take, and the templates if they are due. `export_time` is in seconds since 1970.
    pub(super) fn messages(&mut self, records: &[Record], now: Instant, export_time: u32) -> Vec<Message> {
        let is_due =
            self.told_at.is_none_or(|at| now.saturating_duration_since(at) >= self.template_interval);
        let mut open = Open::new(is_due);
        if records.is_empty() && !is_due {
            return Vec::new();
        }
        let mut messages = Vec::new();
        for record in records {
            let encoded = self.encode(record);
            // Templates leave little room; a message without them has it for any record.
            while !open.has_room_for(&encoded) && !open.is_empty() {
                messages.extend(self.close(open, now, export_time));
                open = Open::new(self.eager > 0);
            }
            open.add(encoded);
        }
        messages.extend(self.close(open, now, export_time));
        messages
    }

    fn encode(&self, record: &Record) -> Encoded {
        match record {
            Record::Flow(row) => match row.record.flow {
                Some(flow) if flow.source.is_ipv4() => self.row(&FLOW_V4, row),
                Some(_) => self.row(&FLOW_V6, row),
                None => self.row(&OTHERS, row),
            },
            Record::Path(row) => self.row(&PATH, row),
            Record::Share(row) => self.row(&SHARE, row),
            Record::Segment(row) => self.row(&SEGMENT, row),
            Record::Target(row) => self.row(&TARGET, row),
        }
    }

    fn row<R>(&self, template: &Template<R>, row: &R) -> Encoded {
        let lengths: Vec<_> = template.fields().map(|field| field.length).collect();
        let values: Vec<_> = template.fields().map(|field| (self.name(field), (field.value)(row))).collect();
        let length = |(length, (_, value)): (&u16, &(IPFixField, FieldValue))| match *length {
            VARIABLE if value.byte_len() < 255 => 1 + value.byte_len(),
            VARIABLE => 3 + value.byte_len(),
            fixed => usize::from(fixed),
        };
        let bytes = lengths.iter().zip(&values).map(length).sum();
        Encoded { template: template.id, is_option: template.scopes > 0, lengths, values, bytes }
    }

    fn name<R>(&self, field: &Field<R>) -> IPFixField {
        IPFixField::new(field.number, field.is_own.then_some(self.enterprise))
    }

    /// Ends a message. Nothing in it can be wrong in a way that the library would not take; if it were, it would be as if the
    /// message were lost.
    fn close(&mut self, open: Open, now: Instant, export_time: u32) -> Option<Message> {
        let header = Header {
            version: VERSION,
            length: 0,
            export_time,
            sequence_number: self.sequence,
            observation_domain_id: self.domain,
        };
        let mut flowsets = Vec::new();
        if open.has_templates {
            self.told_at = Some(now);
            self.eager = self.eager.saturating_sub(1);
            flowsets.extend(self.template_sets());
        }
        flowsets.extend(open.sets.into_iter().filter_map(Set::body));
        self.sequence = self.sequence.wrapping_add(open.records);
        let bytes = IPFix { header, flowsets }.to_be_bytes();
        debug_assert!(bytes.is_ok(), "{bytes:?}");
        Some(Message { bytes: bytes.ok()?, records: open.records })
    }

    fn template_sets(&self) -> [FlowSet; 2] {
        let of_data = vec![self.template(&FLOW_V4), self.template(&FLOW_V6), self.template(&OTHERS)];
        let of_options = vec![
            self.options_template(&PATH),
            self.options_template(&SHARE),
            self.options_template(&SEGMENT),
            self.options_template(&TARGET),
        ];
        [
            set(TEMPLATES, FlowSetBody::Templates(of_data)),
            set(OPTIONS_TEMPLATES, FlowSetBody::OptionsTemplates(of_options)),
        ]
    }

    fn template<R>(&self, template: &Template<R>) -> WireTemplate {
        let fields = self.specifiers(template);
        WireTemplate { template_id: template.id, field_count: count(&fields), fields }
    }

    fn options_template<R>(&self, template: &Template<R>) -> OptionsTemplate {
        let fields = self.specifiers(template);
        let (field_count, scope_field_count) = (count(&fields), template.scopes);
        OptionsTemplate { template_id: template.id, field_count, scope_field_count, fields }
    }

    fn specifiers<R>(&self, template: &Template<R>) -> Vec<TemplateField> {
        let specifier = |field: &Field<R>| TemplateField {
            field_type_number: field.number,
            field_length: field.length,
            enterprise_number: field.is_own.then_some(self.enterprise),
            field_type: self.name(field),
        };
        template.fields().map(specifier).collect()
    }
}

/// A message that is being filled.
struct Open {
    has_templates: bool,
    bytes: usize,
    records: u32,
    sets: Vec<Set>,
}

/// Records of one template that follow each other.
struct Set {
    template: u16,
    is_option: bool,
    lengths: Vec<u16>,
    rows: Vec<Vec<(IPFixField, FieldValue)>>,
}

/// A record with its bytes in a message.
struct Encoded {
    template: u16,
    is_option: bool,
    lengths: Vec<u16>,
    values: Vec<(IPFixField, FieldValue)>,
    bytes: usize,
}

impl Open {
    fn new(has_templates: bool) -> Self {
        let bytes = HEADER + if has_templates { bytes_of_templates() } else { 0 };
        Self { has_templates, bytes, records: 0, sets: Vec::new() }
    }

    /// The bytes that a record adds: those of a set, too, unless it joins the last one.
    fn added_by(&self, encoded: &Encoded) -> usize {
        let joins = self.sets.last().is_some_and(|set| set.template == encoded.template);
        encoded.bytes + if joins { 0 } else { SET_HEADER + PADDING }
    }

    fn is_empty(&self) -> bool {
        !self.has_templates && self.records == 0
    }

    fn has_room_for(&self, encoded: &Encoded) -> bool {
        self.bytes + self.added_by(encoded) <= MAX_MESSAGE
    }

    fn add(&mut self, encoded: Encoded) {
        self.bytes += self.added_by(&encoded);
        self.records += 1;
        let Encoded { template, is_option, lengths, values, .. } = encoded;
        match self.sets.last_mut().filter(|set| set.template == template) {
            Some(set) => set.rows.push(values),
            None => self.sets.push(Set { template, is_option, lengths, rows: vec![values] }),
        }
    }
}

impl Set {
    fn body(self) -> Option<FlowSet> {
        let Self { template, is_option, lengths, rows } = self;
        let body = if is_option {
            FlowSetBody::OptionsData(OptionsData::with_template_field_lengths(rows, lengths).ok()?)
        } else {
            FlowSetBody::Data(Data::with_template_field_lengths(rows, lengths).ok()?)
        };
        Some(set(template, body))
    }
}

/// A set, whose length the library fills in.
fn set(header_id: u16, body: FlowSetBody) -> FlowSet {
    FlowSet { header: FlowSetHeader { header_id, length: 0 }, body }
}

fn count(fields: &[TemplateField]) -> u16 {
    u16::try_from(fields.len()).unwrap_or(u16::MAX)
}

/// Bytes of the two sets of templates.
fn bytes_of_templates() -> usize {
    fn of<R>(template: &Template<R>) -> usize {
        let head = if template.scopes > 0 { 6 } else { 4 };
        head + template.fields().map(|field| if field.is_own { 8 } else { 4 }).sum::<usize>()
    }
    let sets = 2 * (SET_HEADER + PADDING);
    let of_flows = of(&FLOW_V4) + of(&FLOW_V6) + of(&OTHERS);
    sets + of_flows + of(&PATH) + of(&SHARE) + of(&SEGMENT) + of(&TARGET)
}

#[cfg(test)]
mod tests;
