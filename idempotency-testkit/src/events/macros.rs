//! The methods that several events have.

/// Implements what every event has. The type has a method `render(&self) -> Value` and a field `changes`.
macro_rules! event {
    ($name:ident) => {
        impl $name {
            /// Sets the field at a JSON pointer, such as `/requestContext/stage`, after all other methods.
            ///
            /// Missing objects on the way are created. The event panics when it is written if a list has no such item.
            pub fn with(
                mut self,
                pointer: impl Into<String>,
                value: impl Into<serde_json::Value>,
            ) -> Self {
                self.changes.push((pointer.into(), value.into()));
                self
            }

            /// Returns the event as a JSON value.
            #[must_use]
            pub fn to_value(&self) -> serde_json::Value {
                let mut event = self.render();
                for (pointer, value) in &self.changes {
                    super::value::set(&mut event, pointer, value.clone());
                }
                event
            }

            /// Reads the event as a handler of this type receives it.
            ///
            /// # Errors
            ///
            /// If the event does not fit the type.
            pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
                serde_json::from_str(&self.to_string())
            }
        }

        /// Writes the event as JSON text.
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.to_value().fmt(f)
            }
        }

        impl From<$name> for serde_json::Value {
            fn from(event: $name) -> Self {
                event.to_value()
            }
        }

        impl From<$name> for String {
            fn from(event: $name) -> Self {
                event.to_string()
            }
        }
    };
}

/// Implements what every HTTP request has. The type has a field `request` of type `Request`.
macro_rules! http_event {
    ($name:ident) => {
        event!($name);

        impl $name {
            /// Adds a header. A name that is added again has several values.
            ///
            /// It replaces a header that the event has by itself, such as `User-Agent`.
            pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
                self.request.headers.push((name.into(), value.into()));
                self
            }

            /// Adds a parameter of the query. Name and value are not encoded.
            pub fn query(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
                self.request.query.push((name.into(), value.into()));
                self
            }

            /// Sets the body to a text.
            pub fn body(mut self, text: impl Into<String>) -> Self {
                self.request.body = Some(super::request::Body::Text(text.into()));
                self
            }

            /// Sets the body to JSON, and the content type unless the request has one.
            ///
            /// # Panics
            ///
            /// If the value cannot be written as JSON.
            pub fn json<T: serde::Serialize + ?Sized>(mut self, value: &T) -> Self {
                self.request.set_json(value);
                self
            }

            /// Sets the body to bytes. The event has them in base64.
            pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
                self.request.body = Some(super::request::Body::Bytes(bytes.into()));
                self
            }
        }
    };
}

/// Implements what every request through API Gateway has. The type has fields `path_parameters`, `stage_variables` and
/// `request_id`.
macro_rules! api_gateway_event {
    ($name:ident) => {
        http_event!($name);

        impl $name {
            /// Adds a parameter of the path, such as `id` of `/payments/{id}`.
            pub fn path_parameter(
                mut self,
                name: impl Into<String>,
                value: impl Into<String>,
            ) -> Self {
                self.path_parameters.push((name.into(), value.into()));
                self
            }

            /// Adds a variable of the stage.
            pub fn stage_variable(
                mut self,
                name: impl Into<String>,
                value: impl Into<String>,
            ) -> Self {
                self.stage_variables.push((name.into(), value.into()));
                self
            }

            /// Sets the id that API Gateway gave to the request. A retry of a client has another id.
            pub fn request_id(mut self, id: impl Into<String>) -> Self {
                self.request_id = id.into();
                self
            }
        }
    };
}
