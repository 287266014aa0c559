//! The attributes of a record: one table, from which everything that lists them is made.

use super::{Data, Field, OwnerToken, RecordedSteps, Status, StoredEvent};
use crate::time::{EpochMillis, EpochSeconds};

/// Passes the table of attributes to the macro `$make`. A row has the name of an attribute, its field, the type of its value, and what
/// it is. A column of a store has the name of the field, unless it is configured.
#[doc(hidden)]
#[macro_export]
macro_rules! record_attributes {
    ($make:ident) => {
        $make! {
            /// When the record expires, in seconds. Also the table's TTL attribute.
            Expiration expiration: EpochSeconds,
            /// When the claim's lease ends, in milliseconds.
            InProgressExpiration in_progress_expiration: EpochMillis,
            /// The status: `INPROGRESS`, `COMPLETED` or `UNDOING`.
            Status status: Status,
            /// The response, as JSON text.
            Data data: Data,
            /// The validation digest: of the validated part of the payload.
            Validation validation: String,
            /// The token of the call that made the claim.
            Owner owner: OwnerToken,
            /// A recorded failure. It has ended the lease of its claim.
            Failure failure: String,
            /// The path of the operation that claimed the key. It is for people: no rule of the protocol depends on it.
            Operation operation: String,
            /// The trace of an operator's decision, as JSON text. No rule of a call depends on it; a later decision does.
            Decision decision: String,
            /// What the record keeps of the event of its call, under `store_event`. A store writes it, possibly compressed, and may
            /// leave it out of the records that it returns: no rule of the protocol asks for it, and reading it would cost each
            /// duplicate.
            Event event: StoredEvent,
            /// The recorded results of steps. A claim of an operation with steps has them, also if no step is recorded yet.
            Steps steps: RecordedSteps,
            /// Which steps are undone, and which are left, as JSON text.
            Undo undo: String,
        }
    };
}

macro_rules! record {
    ($($(#[doc = $doc:literal])* $name:ident $field:ident: $value:ty,)*) => {
        /// The attributes of a record, without its id.
        ///
        /// # Examples
        ///
        /// ```
        /// use idempotency_core::record::{Field, Record, Status};
        /// let record = Record { status: Field::Value(Status::Completed), ..Record::default() };
        /// assert!(!record.data.exists());
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
        pub struct Record {
            $($(#[doc = $doc])* pub $field: Field<$value>,)*
        }

        /// One attribute of a [`Record`].
        ///
        /// This enum is exhaustive on purpose: a store must know every attribute.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Attribute {
            $($(#[doc = $doc])* $name,)*
        }

        impl Attribute {
            /// All attributes.
            pub const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];

            /// Returns the name of the attribute's column, unless the store has another one.
            pub const fn default_name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($field),)*
                }
            }

            /// Returns what the attribute is compared with. `None` if no condition compares it.
            pub(crate) const fn unit(self) -> Option<Unit> {
                match self {
                    $(Self::$name => <$value as Stored>::UNIT,)*
                }
            }
        }

        impl Record {
            /// Returns one attribute.
            pub fn field(&self, attribute: Attribute) -> Field<FieldValue<'_>> {
                match attribute {
                    $(Attribute::$name => self.$field.as_ref().map(Stored::value),)*
                }
            }

            /// Returns each attribute that has a value, for a store that writes columns.
            ///
            /// # Examples
            ///
            /// ```
            /// use idempotency_core::record::*;
            /// let record = Record { status: Field::Value(Status::InProgress), steps: Field::Unreadable, ..Record::default() };
            /// let columns = record.fields().map(|(attribute, value)| (attribute.default_name(), value));
            /// assert_eq!(columns.collect::<Vec<_>>(), [("status", FieldValue::Text("INPROGRESS"))]);
            /// ```
            pub fn fields(&self) -> impl Iterator<Item = (Attribute, FieldValue<'_>)> {
                let all = [$((Attribute::$name, self.$field.value().map(Stored::value)),)*];
                let all = all.into_iter();
                all.filter_map(|(attribute, value)| Some((attribute, value?)))
            }

            /// Returns how long the texts of all attributes are together, in bytes.
            pub(crate) fn texts_len(&self) -> usize {
                0 $(+ self.$field.value().map_or(0, |value| value.value().text_len()))*
            }

            /// Returns the record in the columns of a store.
            pub fn read(columns: &mut impl Columns) -> Self {
                Self {
                    $($field: Stored::read(columns, Attribute::$name),)*
                }
            }

            /// Makes one attribute the same as in `from`.
            #[doc(hidden)]
            pub fn copy(&mut self, attribute: Attribute, from: &Self) {
                match attribute {
                    $(Attribute::$name => self.$field.clone_from(&from.$field),)*
                }
            }
        }
    };
}

record_attributes!(record);

/// The value of an attribute, as a store writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// A time in seconds since the epoch.
    Seconds(EpochSeconds),
    /// A time in milliseconds since the epoch.
    Millis(EpochMillis),
    /// A text. It can be empty.
    Text(&'a str),
    /// The response.
    Data(&'a Data),
    /// The recorded results of steps. An attribute without any differs from no attribute.
    Steps(&'a RecordedSteps),
    /// What is kept of the event.
    Event(&'a StoredEvent),
}

impl<'a> FieldValue<'a> {
    /// Returns how long the text of the value is, or those of its steps, in bytes.
    // The kind of each attribute is known, so nothing of the `match` is left where it is inlined.
    #[inline]
    fn text_len(self) -> usize {
        match self {
            Self::Steps(steps) => steps.text_len(),
            value => value.text().map_or(0, str::len),
        }
    }

    /// Returns the text that a store keeps, if the value is one.
    pub(crate) fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Data(data) => Some(data.as_str()),
            Self::Event(event) => Some(event.stored()),
            Self::Seconds(_) | Self::Millis(_) | Self::Steps(_) => None,
        }
    }
}

/// The columns of one record, as a store has read them. A column of a wrong type is [`Field::Unreadable`].
///
/// # Examples
///
/// ```
/// use idempotency_core::record::*;
/// struct Texts(Vec<(&'static str, &'static str)>);
///
/// impl Texts {
///     fn read<T>(&self, attribute: Attribute, parse: impl Fn(&str) -> Option<T>) -> Field<T> {
///         let column = self.0.iter().find(|(name, _)| *name == attribute.default_name());
///         column.map_or(Field::Absent, |(_, text)| parse(text).map_or(Field::Unreadable, Field::Value))
///     }
/// }
///
/// impl Columns for Texts {
///     fn number(&mut self, attribute: Attribute) -> Field<i64> {
///         self.read(attribute, |text| text.parse().ok())
///     }
///
///     fn text(&mut self, attribute: Attribute) -> Field<String> {
///         self.read(attribute, |text| Some(text.to_owned()))
///     }
///
///     fn steps(&mut self, attribute: Attribute) -> Field<RecordedSteps> {
///         self.read(attribute, |text| text.is_empty().then(RecordedSteps::default))
///     }
/// }
///
/// let record = Record::read(&mut Texts(vec![("status", "COMPLETED"), ("expiration", "soon")]));
/// assert_eq!(record, Record { status: Field::Value(Status::Completed), expiration: Field::Unreadable, ..Record::default() });
/// ```
pub trait Columns {
    /// Reads a time, in the unit of the attribute. A fraction is rounded down.
    fn number(&mut self, attribute: Attribute) -> Field<i64>;

    /// Reads a text. That of the response, [`Attribute::Data`], can be made of a value of another type.
    fn text(&mut self, attribute: Attribute) -> Field<String>;

    /// Reads the recorded results of steps.
    fn steps(&mut self, attribute: Attribute) -> Field<RecordedSteps>;

    /// Reads what is kept of the event. By default it is left out, because no rule of the protocol asks for it.
    fn event(&mut self, _: Attribute) -> Field<StoredEvent> {
        Field::Absent
    }
}

/// What an attribute is compared with.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Text,
    Seconds,
    Millis,
}

/// A type of the values of attributes.
trait Stored: Sized {
    const UNIT: Option<Unit>;

    fn value(&self) -> FieldValue<'_>;

    fn read(columns: &mut impl Columns, attribute: Attribute) -> Field<Self>;
}

/// Implements [`Stored`]: the type, what it is compared with, its value, and the column that it is read from.
macro_rules! stored {
    ($($type:ty, $unit:expr, $value:expr, $column:ident $(, $read:expr)?;)*) => {
        $(impl Stored for $type {
            const UNIT: Option<Unit> = $unit;

            fn value(&self) -> FieldValue<'_> {
                $value(self)
            }

            fn read(columns: &mut impl Columns, attribute: Attribute) -> Field<Self> {
                columns.$column(attribute)$(.map($read))?
            }
        })*
    };
}

stored! {
    EpochSeconds, Some(Unit::Seconds), |at: &Self| FieldValue::Seconds(*at), number, Self::new;
    EpochMillis, Some(Unit::Millis), |at: &Self| FieldValue::Millis(*at), number, Self::new;
    Status, Some(Unit::Text), |it| FieldValue::Text(Self::as_str(it)), text, Self::from_record;
    OwnerToken, Some(Unit::Text), |it| FieldValue::Text(Self::as_str(it)), text, Self::from_record;
    String, Some(Unit::Text), |it| FieldValue::Text(Self::as_str(it)), text;
    Data, Some(Unit::Text), FieldValue::Data, text, Self::new;
    RecordedSteps, None, FieldValue::Steps, steps;
    StoredEvent, None, FieldValue::Event, event;
}
