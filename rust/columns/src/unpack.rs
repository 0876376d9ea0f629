//! Reading batches. Every count and length is checked against the bytes that are left.

use classad::{Ad, Expr, Name, Value};

use crate::error::TableError;
use crate::pack::{
    FLAG_RESET, MAGIC, OP_DELTA, OP_FULL, OP_PLAIN, OP_REMOVE, PACK_VERSION, PackHeader,
    PackWriter, tag,
};

/// Reads the primitives of a batch.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads the header.
    pub fn new(bytes: &'a [u8]) -> Result<(Self, PackHeader), TableError> {
        let mut reader = Reader { bytes, at: 0 };
        if bytes.len() < 5 || &bytes[..3] != MAGIC {
            return Err(reader.bad("no batch header"));
        }
        if bytes[3] != PACK_VERSION {
            return Err(TableError::PackVersion(bytes[3]));
        }
        reader.at = 5;
        let header = PackHeader {
            reset: bytes[4] & FLAG_RESET != 0,
            from_version: reader.varint()?,
            to_version: reader.varint()?,
        };
        Ok((reader, header))
    }

    pub fn bad(&self, what: &'static str) -> TableError {
        TableError::BadPack { what, at: self.at }
    }

    #[inline]
    pub fn at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, TableError> {
        let Some(byte) = self.bytes.get(self.at) else {
            return Err(self.bad("cut short"));
        };
        self.at += 1;
        Ok(*byte)
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64, TableError> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7F);
        let mut shift = 7;
        loop {
            let byte = self.byte()?;
            if shift >= 63 && byte > 1 {
                return Err(self.bad("number too large"));
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    #[inline]
    pub fn int(&mut self) -> Result<i64, TableError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], TableError> {
        let len = self.varint()?;
        let rest = &self.bytes[self.at..];
        if len > rest.len() as u64 {
            return Err(self.bad("length beyond the end"));
        }
        self.at += len as usize;
        Ok(&rest[..len as usize])
    }

    #[inline]
    pub fn real(&mut self) -> Result<f64, TableError> {
        let Some(bytes) = self.bytes.get(self.at..self.at + 8) else {
            return Err(self.bad("cut short"));
        };
        self.at += 8;
        Ok(f64::from_le_bytes(bytes.try_into().unwrap_or([0; 8])))
    }

    /// A count of things that take at least two bytes each.
    pub fn count(&mut self) -> Result<usize, TableError> {
        let count = self.varint()?;
        if count > (self.bytes.len() - self.at) as u64 / 2 {
            return Err(self.bad("count beyond the end"));
        }
        Ok(count as usize)
    }

    /// Entry of a dictionary by its number from 1.
    #[inline]
    pub fn pick<T: Clone>(&mut self, dictionary: &[T]) -> Result<T, TableError> {
        let number = self.varint()?;
        match dictionary.get((number as usize).wrapping_sub(1)) {
            Some(entry) => Ok(entry.clone()),
            None => Err(self.bad("no such dictionary entry")),
        }
    }
}

/// One operation of a batch as ads.
#[derive(Clone, Debug, PartialEq)]
pub enum PackedOp {
    /// The ad of a key (or without one) is this.
    Full(Option<Vec<u8>>, Ad),
    /// Changed and removed attributes.
    Delta(Vec<u8>, Ad, Vec<Name>),
    /// The ad is gone.
    Remove(Vec<u8>),
}

/// Reads a batch into ads.
///
/// # Errors
/// [`TableError::BadPack`], [`TableError::PackVersion`], [`TableError::BadExpression`].
pub fn unpack(bytes: &[u8]) -> Result<(PackHeader, Vec<PackedOp>), TableError> {
    let (mut reader, header) = Reader::new(bytes)?;
    let mut names: Vec<Name> = Vec::new();
    let mut strings: Vec<Expr> = Vec::new();
    let mut exprs: Vec<Expr> = Vec::new();
    let mut out = Vec::new();
    while !reader.at_end() {
        let operation = reader.byte()?;
        let key = match operation {
            OP_FULL | OP_DELTA | OP_REMOVE => reader.bytes()?.to_vec(),
            OP_PLAIN => Vec::new(),
            _ => return Err(reader.bad("unknown operation")),
        };
        if operation == OP_REMOVE {
            out.push(PackedOp::Remove(key));
            continue;
        }
        let count = reader.count()?;
        let mut ad = Ad::with_capacity(count);
        let mut removed = Vec::new();
        for _ in 0..count {
            let number = reader.varint()?;
            let name = if number == 0 {
                names.push(Name::new(reader.bytes()?));
                names[names.len() - 1].clone()
            } else {
                match names.get(number as usize - 1) {
                    Some(name) => name.clone(),
                    None => return Err(reader.bad("no such name")),
                }
            };
            let expr = match reader.byte()? {
                tag::UNSET => {
                    removed.push(name);
                    continue;
                }
                tag::UNDEFINED => Expr::Lit(Value::Undefined),
                tag::ERROR => Expr::Lit(Value::Error),
                tag::FALSE => Expr::Lit(Value::Bool(false)),
                tag::TRUE => Expr::Lit(Value::Bool(true)),
                tag::INT => Expr::Lit(Value::Int(reader.int()?)),
                tag::REAL => Expr::Lit(Value::Real(reader.real()?)),
                tag::STR_NEW => {
                    strings.push(Expr::Lit(Value::Str(reader.bytes()?.into())));
                    strings[strings.len() - 1].clone()
                }
                tag::STR_REF => reader.pick(&strings)?,
                tag::EXPR_NEW => {
                    exprs.push(crate::ads::parse_canonical(reader.bytes()?)?);
                    exprs[exprs.len() - 1].clone()
                }
                tag::EXPR_REF => reader.pick(&exprs)?,
                _ => return Err(reader.bad("unknown tag")),
            };
            ad.insert(name, expr);
        }
        out.push(match operation {
            OP_DELTA => PackedOp::Delta(key, ad, removed),
            OP_FULL => PackedOp::Full(Some(key), ad),
            _ => PackedOp::Full(None, ad),
        });
    }
    Ok((header, out))
}

/// What a batch holds, found without building an ad.
#[derive(Clone, Debug, Default)]
pub struct Survey<'a> {
    /// Keys of whole ads, in the order of the batch.
    pub whole: Vec<&'a [u8]>,
    /// Keys of ads of which some attributes change.
    pub changed: Vec<&'a [u8]>,
    /// Bytes that each of the whole ads and of the changes says, in the order of these: names, and texts of values, also
    /// of those that the batch has once for several ads.
    pub whole_bytes: Vec<usize>,
    /// See `whole_bytes`.
    pub changed_bytes: Vec<usize>,
    /// Keys of ads that go.
    pub removed: Vec<&'a [u8]>,
    /// Whole ads without a key.
    pub plain: usize,
    /// The attribute names, each as first spelled.
    pub names: Vec<Name>,
    /// For each attribute that was asked for, what the ads that set it say. An ad that sets it twice is there twice,
    /// and one without a key is left out.
    pub said: Vec<Vec<Said<'a>>>,
}

/// The key of an ad, and the text of one attribute of it; None for anything but a plain string.
pub type Said<'a> = (&'a [u8], Option<&'a [u8]>);

impl Survey<'_> {
    /// How many ads there are, removals left out.
    #[must_use]
    pub fn ads(&self) -> usize {
        self.whole.len() + self.changed.len() + self.plain
    }
}

/// Bytes that any value counts for, besides its text.
const VALUE_BYTES: usize = 8;

/// The keys of a batch by operation, the attribute names in it, and what its ads say of the `wanted` attributes: found
/// without building an ad, so that a batch can be refused before it costs more than its own bytes.
///
/// # Errors
/// [`TableError::BadPack`], [`TableError::PackVersion`]. Expressions are not parsed.
pub fn survey<'a>(bytes: &'a [u8], wanted: &[Name]) -> Result<Survey<'a>, TableError> {
    let (mut reader, _) = Reader::new(bytes)?;
    let mut found = Survey {
        said: vec![Vec::new(); wanted.len()],
        ..Survey::default()
    };
    // Which of the wanted ones each name of the batch is.
    let mut sought: Vec<Option<usize>> = Vec::new();
    let mut strings: Vec<&[u8]> = Vec::new();
    let mut exprs: Vec<usize> = Vec::new();
    while !reader.at_end() {
        let operation = reader.byte()?;
        let key = match operation {
            OP_FULL | OP_DELTA | OP_REMOVE => Some(reader.bytes()?),
            OP_PLAIN => None,
            _ => return Err(reader.bad("unknown operation")),
        };
        match (operation, key) {
            (OP_FULL, Some(key)) => found.whole.push(key),
            (OP_DELTA, Some(key)) => found.changed.push(key),
            (OP_REMOVE, Some(key)) => found.removed.push(key),
            _ => found.plain += 1,
        }
        if operation == OP_REMOVE {
            continue;
        }
        let mut size = key.map_or(0, <[u8]>::len);
        for _ in 0..reader.count()? {
            let place = match reader.varint()? as usize {
                0 => {
                    let name = Name::new(reader.bytes()?);
                    sought.push(wanted.iter().position(|one| *one == name));
                    found.names.push(name);
                    sought.len() - 1
                }
                number => number - 1,
            };
            let Some(asked) = sought.get(place).copied() else {
                return Err(reader.bad("no such name"));
            };
            size += found.names[place].as_bytes().len() + VALUE_BYTES;
            let text = match reader.byte()? {
                tag::UNSET => continue,
                tag::UNDEFINED | tag::ERROR | tag::FALSE | tag::TRUE => None,
                tag::INT => {
                    reader.varint()?;
                    None
                }
                tag::REAL => {
                    reader.real()?;
                    None
                }
                tag::STR_NEW => {
                    strings.push(reader.bytes()?);
                    strings.last().copied()
                }
                tag::STR_REF => Some(reader.pick(&strings)?),
                tag::EXPR_NEW => {
                    exprs.push(reader.bytes()?.len());
                    size += exprs.last().copied().unwrap_or_default();
                    None
                }
                tag::EXPR_REF => {
                    size += reader.pick(&exprs)?;
                    None
                }
                _ => return Err(reader.bad("unknown tag")),
            };
            size += text.map_or(0, <[u8]>::len);
            if let (Some(asked), Some(key)) = (asked, key) {
                found.said[asked].push((key, text));
            }
        }
        match operation {
            OP_FULL => found.whole_bytes.push(size),
            OP_DELTA => found.changed_bytes.push(size),
            _ => {}
        }
    }
    Ok(found)
}

/// A batch as several of about `most` bytes each, to be applied one after the other; a single ad may be larger. What
/// the header says of versions holds for the whole: the first forgets what it must, the last brings the new version.
///
/// # Errors
/// As [`unpack`].
pub fn split(bytes: &[u8], most: usize) -> Result<Vec<Vec<u8>>, TableError> {
    let (header, operations) = unpack(bytes)?;
    let fresh = |first: bool| {
        PackWriter::new(PackHeader {
            reset: first && header.reset,
            from_version: if first { header.from_version } else { 0 },
            to_version: header.to_version,
        })
    };
    let mut pieces = Vec::new();
    let mut writer = fresh(true);
    for operation in operations {
        if writer.len() >= most {
            let full = std::mem::replace(&mut writer, fresh(false));
            pieces.push(full.finish());
        }
        match operation {
            PackedOp::Full(Some(key), ad) => writer.upsert(&key, &ad),
            PackedOp::Full(None, ad) => writer.ad(&ad),
            PackedOp::Delta(key, ad, removed) => writer.update(&key, &ad, &removed),
            PackedOp::Remove(key) => writer.remove(&key),
        }
    }
    pieces.push(writer.finish());
    Ok(pieces)
}
