//! Divides a module's functions, and puts the module together again.

use wasmparser::{
    FuncToValidate, FunctionBody, Parser, Payload, ValidPayload, Validator, ValidatorResources,
    WasmFeatures,
};

use super::encode::{number, read_number};
use super::live::Live;
use super::places::Places;
use super::regions::{self, Region};
use super::scan::Scan;
use super::write::{Code, Part, Writer};
use crate::parallel;

/// Bytes of text that one byte of a function becomes at most, except in code that no compiler makes. Shorter functions are not
/// looked at.
const TEXT_FOR_EACH_BYTE: usize = 600;
const TYPES: u8 = 1;
const FUNCTIONS: u8 = 3;
const CODE: u8 = 10;

/// A divided module.
#[derive(Debug)]
pub(crate) struct Divided {
    pub(crate) bytes: Vec<u8>,
    pub(crate) places: Places,
}

/// What a module has, as far as it matters.
#[derive(Default)]
struct Counts {
    types: u32,
    imported: u32,
    functions: u32,
}

/// Divides the functions of a module that become more than about `most` bytes of text. `None` if there are none, or if the module is
/// not valid.
pub(crate) fn divide(bytes: &[u8], features: WasmFeatures, most: usize) -> Option<Divided> {
    let (counts, functions) = read(bytes, features, most)?;
    let first = counts.imported + counts.functions;
    let mut places = Places::new(first as usize);
    let (mut parts, mut bodies) = (Vec::new(), Vec::new());
    let looked_at = parallel::map(functions, |(function, body)| {
        let division = function.and_then(|function| Division::of(bytes, function, &body, most));
        (division, body)
    });
    for (division, body) in looked_at {
        let next = first + parts.len() as u32;
        let code = division.and_then(|division| {
            let code = division.rest(bytes, next)?;
            Some((code, division))
        });
        bodies.push(match code {
            Some((code, division)) => {
                let found = division.parts.iter();
                found.for_each(|_| places.part_of(division.function));
                parts.extend(division.parts);
                code
            }
            None => {
                let mut code = Code::default();
                code.places.copied(0, body.range().start);
                code.bytes.extend_from_slice(&bytes[body.range()]);
                code
            }
        });
    }
    if parts.is_empty() {
        return None;
    }
    let bytes = assemble(bytes, &counts, &bodies, &parts, &mut places)?;
    Some(Divided { bytes, places })
}

/// All functions, and those to validate that may be too long.
type Functions<'b> = Vec<(Option<FuncToValidate<ValidatorResources>>, FunctionBody<'b>)>;

fn read(bytes: &[u8], features: WasmFeatures, most: usize) -> Option<(Counts, Functions<'_>)> {
    let mut validator = Validator::new_with_features(features);
    let (mut counts, mut functions) = (Counts::default(), Vec::new());
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.ok()?;
        if let ValidPayload::Func(function, body) = validator.payload(&payload).ok()? {
            let is_long = body.range().len().saturating_mul(TEXT_FOR_EACH_BYTE) > most;
            functions.push((is_long.then_some(function), body));
            continue;
        }
        match &payload {
            Payload::TypeSection(types) => counts.types = types.count(),
            Payload::ImportSection(imports) => {
                for import in imports.clone().into_imports() {
                    let is_function = matches!(import.ok()?.ty, wasmparser::TypeRef::Func(_));
                    counts.imported += u32::from(is_function);
                }
            }
            Payload::FunctionSection(functions) => counts.functions = functions.count(),
            _ => {}
        }
    }
    (functions.iter().any(|(long, _)| long.is_some())).then_some((counts, functions))
}

/// How a function is divided.
struct Division {
    function: u32,
    /// The offset of its body in the module.
    start: usize,
    scan: Scan,
    regions: Vec<Region>,
    parts: Vec<Part>,
}

impl Division {
    /// `None` if the function is short enough or cannot be divided.
    fn of(
        bytes: &[u8],
        function: FuncToValidate<ValidatorResources>,
        body: &FunctionBody<'_>,
        most: usize,
    ) -> Option<Self> {
        let number = function.index;
        let scan = Scan::new(function, body)?;
        // A function that is little longer is not worth a call.
        if scan.text_in(0, scan.ops.len()) <= most + most / 2 {
            return None;
        }
        let live = Live::new(&scan)?;
        let regions = regions::find(&scan, &live, most);
        let mut division = Self {
            function: number,
            start: body.range().start,
            scan,
            regions,
            parts: Vec::new(),
        };
        let writer = division.writer(bytes);
        let parts = division.regions.iter().map(|region| writer.part(region));
        division.parts = parts.collect::<Option<_>>()?;
        (!division.parts.is_empty()).then_some(division)
    }

    fn writer<'a>(&'a self, bytes: &'a [u8]) -> Writer<'a> {
        Writer {
            bytes,
            scan: &self.scan,
            start: self.start,
        }
    }

    /// The rest of the function. Its parts have numbers from `first` on.
    fn rest(&self, bytes: &[u8], first: u32) -> Option<Code> {
        self.writer(bytes).function(&self.regions, first)
    }
}

/// The module with other functions' bodies, and with parts.
fn assemble(
    bytes: &[u8],
    counts: &Counts,
    bodies: &[Code],
    parts: &[Part],
    places: &mut Places,
) -> Option<Vec<u8>> {
    // The magic number and the version.
    let mut out = bytes.get(..8)?.to_vec();
    let mut at = out.len();
    while at < bytes.len() {
        let id = bytes[at];
        let (length, start) = read_number(bytes, at + 1)?;
        let end = start.checked_add(length as usize)?;
        let content = bytes.get(start..end)?;
        at = end;
        let mut section = Vec::new();
        let begin = |section: &mut Vec<u8>, old: u32| {
            let (count, after) = read_number(content, 0)?;
            number(section, count + parts.len() as u32);
            section.extend_from_slice(&content[after..]);
            (count == old).then_some(())
        };
        match id {
            TYPES => {
                begin(&mut section, counts.types)?;
                parts.iter().for_each(|part| section.extend(&part.ty));
            }
            FUNCTIONS => {
                begin(&mut section, counts.functions)?;
                (counts.types..)
                    .zip(parts)
                    .for_each(|(ty, _)| number(&mut section, ty));
            }
            CODE => {
                let all: Vec<_> = (bodies.iter())
                    .chain(parts.iter().map(|p| &p.code))
                    .collect();
                number(&mut section, all.len() as u32);
                let mut starts = Vec::new();
                for code in &all {
                    number(&mut section, code.bytes.len() as u32);
                    starts.push(section.len());
                    section.extend_from_slice(&code.bytes);
                }
                let mut head = Vec::new();
                number(&mut head, section.len() as u32);
                let before = out.len() + 1 + head.len();
                for (code, start) in all.into_iter().zip(starts) {
                    places.append(&code.places, before + start);
                }
            }
            _ => section.extend_from_slice(content),
        }
        out.push(id);
        number(&mut out, section.len() as u32);
        out.extend(section);
    }
    Some(out)
}
